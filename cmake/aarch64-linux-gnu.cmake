# Cross-compiles for 64-bit Arm with Debian's g++-aarch64-linux-gnu; tests run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_ASM_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)

# Highway is headers only, and those serve every processor; the rest of /usr/include is of this one.
file(CREATE_LINK /usr/include/hwy ${CMAKE_BINARY_DIR}/hwy SYMBOLIC)
set(HIGHWAY_INCLUDE_DIR ${CMAKE_BINARY_DIR})
