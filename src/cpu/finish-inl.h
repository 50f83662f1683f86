// What follows chains, in round-to-nearest: sums of chain results, and the epilogue with its conversions.
#if defined(MMAEMU_CPU_FINISH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MMAEMU_CPU_FINISH_INL_H
#undef MMAEMU_CPU_FINISH_INL_H
#else
#define MMAEMU_CPU_FINISH_INL_H
#endif

#include <bit>

#include "cpu/chain-inl.h"
#include "cpu/kernels.h"
#include "cpu/pack-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mmaemu::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline void add(float* sums, const float* terms, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += kLanes)
    hn::Store(hn::Add(hn::Load(kDF, sums + i), hn::Load(kDF, terms + i)), kDF, sums + i);
}

// fp32 numbers rounded to nearest even in f; NaN is canonical.
HWY_INLINE Words convert(const Format& f, Floats value) {
  const Words bits = hn::BitCast(kD32, value);
  const Words magnitude = hn::And(bits, hn::Set(kD32, 0x7FFFFFFF));
  const auto nan = hn::Gt(magnitude, hn::Set(kD32, 0x7F800000));
  const Words canonical = hn::Set(kD32, f.canonical_nan);
  if (f.id == FormatId::float32) return hn::IfThenElse(nan, canonical, bits);

  const int dropped = 23 - f.fraction_bits;
  const Words lowest_kept = hn::And(hn::ShiftRightSame(magnitude, dropped), hn::Set(kD32, 1));
  const Words below_half = hn::Set(kD32, (1U << (dropped - 1)) - 1);
  const Words rounded = hn::ShiftRightSame(hn::Add(magnitude, hn::Add(below_half, lowest_kept)), dropped);
  const Words normal =
      hn::Sub(rounded, hn::Set(kD32, static_cast<std::uint32_t>(127 - f.bias) << f.fraction_bits));
  // Subnormal results: an addition that leaves the subnormal quantum as the lowest bit rounds to it.
  const Words magic =
      hn::Set(kD32, static_cast<std::uint32_t>(f.min_exponent() - f.fraction_bits + 23 + 127) << 23);
  const Words shifted = hn::BitCast(kD32, hn::Add(hn::BitCast(kDF, magnitude), hn::BitCast(kDF, magic)));
  const Words least_normal = hn::Set(kD32, static_cast<std::uint32_t>(f.min_exponent() + 127) << 23);
  const Words unbounded = hn::IfThenElse(hn::Lt(magnitude, least_normal), hn::Sub(shifted, magic), normal);
  const Words largest = hn::Set(kD32, f.max_finite());
  const Words overflow = hn::Set(kD32, f.saturates ? f.max_finite() : f.max_finite() + 1);
  const Words code = hn::IfThenElse(hn::Gt(unbounded, largest), overflow, unbounded);
  const Words sign = hn::ShiftLeftSame(hn::ShiftRight<31>(bits), f.bits - 1);
  return hn::IfThenElse(nan, canonical, hn::Or(code, sign));
}

inline void finish(const FinishArguments& g, const float* accumulators, std::uint32_t* codes) {
  const Format& f = format(g.format);
  const Floats alpha = hn::Mul(hn::Set(kDF, g.scale_a), hn::Set(kDF, g.scale_b));
  Words out[4];
  for (int j = 0; j < 4; ++j) {
    Floats value = hn::Load(kDF, accumulators + j * kLanes);
    if (g.scale) value = fused(value, alpha, hn::Zero(kDF));
    if (g.scale_again) value = hn::Mul(value, hn::Set(kDF, g.scale_result));
    out[j] = convert(f, value);
  }
  hn::StoreInterleaved4(out[0], out[1], out[2], out[3], kD32, codes);
}

}  // namespace HWY_NAMESPACE
}  // namespace mmaemu::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard of one target
