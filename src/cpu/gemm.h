// The engine: GEMMs of every preset that it covers, tile by tile on all threads. It computes what src/model
// computes; which presets those are, and which instruction sets, is all that a caller chooses by.
#pragma once

#include <cstdint>

#include "mmaemu/gemm.h"

#include "cpu/kernels.h"

namespace mmaemu::cpu {

// Whether the engine's arithmetic holds for a preset: 13 fraction bits per term, at most 13 kept, c aligned
// with the products, at most 64 of them, and a min_exp that leaves room for the magic number.
bool covers(const Preset& preset);

// out[m, n] = finish(accumulator[m, n]). The arguments are valid and agree, the preset is covered, depth > 0.
// b_strips: null, or b's codes as [row / kMaxStrip][K][row % kMaxStrip]. False if it was cancelled. Throws
// std::bad_alloc before anything is written.
bool gemm(Target target, const OperandView& a, const OperandView& b, const std::uint8_t* b_strips,
          const Preset& preset, const AccumulationPlan& plan, const FinishArguments& finish,
          const ResultView& out, const Execution& execution);

}  // namespace mmaemu::cpu
