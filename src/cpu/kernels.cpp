// The inner loops, once for each target. Compiled with -frounding-math: the chain runs in round-toward-zero.
#include "cpu/kernels.h"

#ifndef MMAEMU_CPU_KERNELS_ONCE
#define MMAEMU_CPU_KERNELS_ONCE
// The portable target next to the others, on every processor. Highway keeps that target from g++ before 12.3
// for a bug in 16-bit multiplication (GCC bug 106322), which has no use here. SSE and SVE are left out: the
// former has no fused multiply-add, the latter isn't tested.
#define HWY_COMPILE_ALL_ATTAINABLE
#define HWY_WANT_AVX3_DL
#define HWY_BROKEN_EMU128 0
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels.cpp"
#include "hwy/foreach_target.h"  // includes this file for each target but one
#include "hwy/highway.h"
// clang-format on

#include "cpu/chain-inl.h"
#include "cpu/code_chain-inl.h"
#include "cpu/finish-inl.h"
#include "cpu/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mmaemu::cpu {
namespace HWY_NAMESPACE {

const Kernels kKernels{.lanes = kLanes,
                       .rows = kTileRows,
                       .code_rows = kCodeRows,
                       .transpose = transpose,
                       .pack_strip = pack_strip,
                       .pack_row = pack_row,
                       .chain = chain,
                       .chain_codes = chain_codes,
                       .add = add,
                       .finish = finish};

}  // namespace HWY_NAMESPACE
}  // namespace mmaemu::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mmaemu::cpu {

// Null where a target is not compiled in.
static const Kernels* find_kernels(Target target) {
  switch (target) {
    case Target::avx3_dl:
      return HWY_CHOOSE_AVX3_DL(kKernels);
    case Target::avx3:
      return HWY_CHOOSE_AVX3(kKernels);
    case Target::avx2:
      return HWY_CHOOSE_AVX2(kKernels);
    case Target::neon:
      return HWY_CHOOSE_NEON(kKernels);
    case Target::portable:
      return &N_EMU128::kKernels;
  }
  return nullptr;
}

const Kernels& kernels(Target target) {
  return *find_kernels(target);
}

#if HWY_ARCH_X86
// What Highway's targets need, as it checks it itself; its own check is in a library that isn't linked.
static bool processor_has(Target target) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  switch (target) {
    case Target::avx3_dl:
      return avx3 && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
             __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bitalg") &&
             __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("vpclmulqdq") &&
             __builtin_cpu_supports("vaes");
    case Target::avx3:
      return avx3;
    case Target::avx2:
      return avx2;
    default:
      return true;
  }
}
#else
static bool processor_has(Target) {
  return true;
}
#endif

const std::vector<Target>& available_targets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> found;
    for (std::size_t i = 0; i < kTargetNames.size(); ++i) {
      const auto target = static_cast<Target>(i);
      if (find_kernels(target) != nullptr && processor_has(target)) found.push_back(target);
    }
    return found;
  }();
  return targets;
}

}  // namespace mmaemu::cpu
#endif  // HWY_ONCE
