// The packed split-K tables as bytes of the library. The build defines the two paths; ELF assemblers only.
    .section .rodata

    .balign 64
    .hidden mmaemu_splitk_rtx4060_begin
    .hidden mmaemu_splitk_rtx4060_end
    .globl mmaemu_splitk_rtx4060_begin
    .globl mmaemu_splitk_rtx4060_end
mmaemu_splitk_rtx4060_begin:
    .incbin MMAEMU_SPLITK_RTX4060
mmaemu_splitk_rtx4060_end:

    .balign 64
    .hidden mmaemu_splitk_h100pcie_begin
    .hidden mmaemu_splitk_h100pcie_end
    .globl mmaemu_splitk_h100pcie_begin
    .globl mmaemu_splitk_h100pcie_end
mmaemu_splitk_h100pcie_begin:
    .incbin MMAEMU_SPLITK_H100PCIE
mmaemu_splitk_h100pcie_end:

    .section .note.GNU-stack, "", %progbits
