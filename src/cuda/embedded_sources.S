// The kernels' sources as bytes of the library, for NVRTC. The build defines the paths; ELF assemblers only.
    .section .rodata

.macro source symbol, path
    .hidden mmaemu_source_\symbol\()_begin
    .hidden mmaemu_source_\symbol\()_end
    .globl mmaemu_source_\symbol\()_begin
    .globl mmaemu_source_\symbol\()_end
mmaemu_source_\symbol\()_begin:
    .incbin "\path"
mmaemu_source_\symbol\()_end:
.endm

    source compose, MMAEMU_SOURCE_COMPOSE
    source device, MMAEMU_SOURCE_DEVICE
    source exponents, MMAEMU_SOURCE_EXPONENTS
    source fast, MMAEMU_SOURCE_FAST
    source fast_tile, MMAEMU_SOURCE_FAST_TILE
    source gated, MMAEMU_SOURCE_GATED
    source instructions, MMAEMU_SOURCE_INSTRUCTIONS
    source portable, MMAEMU_SOURCE_PORTABLE
    source tiled, MMAEMU_SOURCE_TILED

    .section .note.GNU-stack, "", %progbits
