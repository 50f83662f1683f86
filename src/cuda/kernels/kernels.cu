// Everything that a kernel's binary holds.
#include "compose.cu"
#include "portable.cu"
