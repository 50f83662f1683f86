// From FP8 codes to what chains read: fp32 values, exponent bytes, sign masks. Integer work, independent of
// the rounding mode.
#if defined(MMAEMU_CPU_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MMAEMU_CPU_PACK_INL_H
#undef MMAEMU_CPU_PACK_INL_H
#else
#define MMAEMU_CPU_PACK_INL_H
#endif

#include <array>
#include <bit>
#include <cstring>

#include "cpu/constants.h"
#include "cpu/kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mmaemu::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr hn::ScalableTag<std::uint8_t> kD8;
inline constexpr hn::Repartition<std::uint16_t, decltype(kD8)> kD16;
inline constexpr hn::Repartition<std::uint32_t, decltype(kD8)> kD32;
inline constexpr hn::Repartition<float, decltype(kD8)> kDF;
using Bytes = hn::Vec<decltype(kD8)>;
using Words = hn::Vec<decltype(kD32)>;
using Floats = hn::Vec<decltype(kDF)>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(kDF));
inline constexpr int kStrip = 4 * kLanes;

// The upper 16 bits of an operand's fp32 value; they hold all of it.
constexpr std::uint16_t top_half(const Format& f, std::uint32_t code) {
  const Decoded d = decode(f, code);
  if (d.kind != NumberClass::finite) return kTinyBits >> 16;
  const int top = 31 - std::countl_zero(d.significand);
  const int fraction = static_cast<int>(d.significand << (7 - top)) & 0x7F;
  return static_cast<std::uint16_t>(((d.exponent - f.fraction_bits + top + 127) << 7) | fraction);
}

// The codes of a format as the byte lanes decode them. fp32's exponent field is the code's plus `rebias`, but
// for the codes below kSmall (zero, subnormals, some more), which are looked up.
template <FormatId kFormat>
struct CodeTable {
  static constexpr const Format& f = format(kFormat);
  static constexpr int kSmall = 8;
  static constexpr int kRebias = 127 - f.bias;
  // Nonfinite magnitudes are the ones above.
  static constexpr std::uint8_t kMaxFinite = static_cast<std::uint8_t>(f.max_finite());
  static constexpr std::array<std::uint8_t, 16> bytes(int shift) {
    std::array<std::uint8_t, 16> table{};
    for (std::uint32_t i = 0; i < table.size(); ++i)
      table[i] = static_cast<std::uint8_t>(top_half(f, i % kSmall) >> shift);
    return table;
  }
  alignas(16) static constexpr std::array<std::uint8_t, 16> kHigh = bytes(8);
  alignas(16) static constexpr std::array<std::uint8_t, 16> kLow = bytes(0);
};

struct DecodedBytes {
  Bytes high;  // bits 24-31 of fp32, the sign included
  Bytes low;   // bits 16-23; the others are zero
  Bytes exponent;
  hn::Mask<decltype(kD8)> non_finite;
};

template <FormatId kFormat>
HWY_INLINE DecodedBytes decode_bytes(Bytes codes, int exponent_bias) {
  using Table = CodeTable<kFormat>;
  constexpr int kFraction = Table::f.fraction_bits;
  const Bytes sign = hn::And(codes, hn::Set(kD8, 0x80));
  Bytes magnitude = hn::AndNot(hn::Set(kD8, 0x80), codes);
  DecodedBytes d;
  d.non_finite = hn::Gt(magnitude, hn::Set(kD8, Table::kMaxFinite));
  magnitude = hn::IfThenZeroElse(d.non_finite, magnitude);
  const Bytes index = hn::And(magnitude, hn::Set(kD8, Table::kSmall - 1));
  const auto small = hn::Lt(magnitude, hn::Set(kD8, Table::kSmall));
  // fp32's field ends at bit 23, the lowest bit of the high byte's successor: a code moved up so that its
  // fraction ends below bit 23 spans both bytes.
  const Bytes high = hn::Add(hn::ShiftRight<kFraction + 1>(magnitude), hn::Set(kD8, Table::kRebias / 2));
  const Bytes low = hn::ShiftLeft<7 - kFraction>(magnitude);
  d.high = hn::Or(
      sign,
      hn::IfThenElse(small, hn::TableLookupBytes(hn::LoadDup128(kD8, Table::kHigh.data()), index), high));
  d.low = hn::IfThenElse(small, hn::TableLookupBytes(hn::LoadDup128(kD8, Table::kLow.data()), index), low);
  const Bytes field = hn::Max(hn::ShiftRight<kFraction>(magnitude), hn::Set(kD8, 1));
  const Bytes exponent =
      hn::Add(field, hn::Set(kD8, static_cast<std::uint8_t>(exponent_bias - Table::f.bias)));
  d.exponent = hn::IfThenElse(hn::Eq(magnitude, hn::Zero(kD8)), hn::Set(kD8, kExponentOfZero), exponent);
  return d;
}

// fp32 vectors 0..3 of a strip from the two upper bytes of each column.
HWY_INLINE void store_values(const DecodedBytes& d, float* values) {
  const auto high = hn::BitCast(kD16, d.high);
  const auto low = hn::BitCast(kD16, d.low);
  const Words even = hn::BitCast(kD32, hn::OddEven(hn::BitCast(kD8, hn::ShiftLeft<8>(high)), d.low));
  const Words odd = hn::BitCast(kD32, hn::OddEven(d.high, hn::BitCast(kD8, hn::ShiftRight<8>(low))));
  const Words upper = hn::Set(kD32, 0xFFFF0000U);
  hn::Store(hn::BitCast(kDF, hn::ShiftLeft<16>(even)), kDF, values);
  hn::Store(hn::BitCast(kDF, hn::ShiftLeft<16>(odd)), kDF, values + kLanes);
  hn::Store(hn::BitCast(kDF, hn::And(even, upper)), kDF, values + 2 * kLanes);
  hn::Store(hn::BitCast(kDF, hn::And(odd, upper)), kDF, values + 3 * kLanes);
}

// The sign bits of up to 8 elements of each column: element i is bit i.
HWY_INLINE Words sign_byte(const std::uint8_t* codes, int elements) {
  const Bytes top = hn::Set(kD8, 0x80);
  Bytes bits = hn::Zero(kD8);
  for (int i = 0; i < 8; ++i) {
    bits = hn::ShiftRight<1>(bits);
    if (i < elements) bits = hn::Or(bits, hn::And(hn::Load(kD8, codes + i * kStrip), top));
  }
  return hn::BitCast(kD32, bits);
}

// What the mask bits of no element are: where the chain asks for it (chain-inl.h), half of an even number is
// set.
HWY_INLINE std::uint32_t padding_bits(int elements) {
  const int used = elements < 0 ? 0 : elements < 32 ? elements : 32;
  if (HWY_TARGET > HWY_AVX3 || elements % 2 != 0) return 0;
  return static_cast<std::uint32_t>(((std::uint64_t{1} << (32 - used) / 2) - 1) << used);
}

// One sign mask of 32 elements of each column: vectors 0..3. Byte j of a 32-bit lane belongs to vector j, so
// the four bytes of a mask come from four vectors: a 4 x 4 transpose of bytes.
HWY_INLINE void store_sign_masks(const std::uint8_t* codes, int elements, std::uint32_t* masks) {
  const Words padding = hn::Set(kD32, padding_bits(elements));
  Words byte[4];
  for (int g = 0; g < 4; ++g)
    byte[g] = elements > 8 * g ? sign_byte(codes + 8 * g * kStrip, elements - 8 * g) : hn::Zero(kD32);
  const Words even_bytes = hn::Set(kD32, 0x00FF00FFU);
  const Words low_half = hn::Set(kD32, 0x0000FFFFU);
  const auto pair_even = [&](Words a, Words b) HWY_ATTR {
    return hn::Or(hn::And(a, even_bytes), hn::ShiftLeft<8>(hn::And(b, even_bytes)));
  };
  const auto pair_odd = [&](Words a, Words b) HWY_ATTR {
    return hn::Or(hn::And(hn::ShiftRight<8>(a), even_bytes), hn::AndNot(even_bytes, b));
  };
  const auto store_two = [&](Words first, Words second, std::uint32_t* to) HWY_ATTR {
    const Words low = hn::Or(hn::And(first, low_half), hn::ShiftLeft<16>(second));
    const Words high = hn::Or(hn::ShiftRight<16>(first), hn::AndNot(low_half, second));
    hn::Store(hn::Or(low, padding), kD32, to);
    hn::Store(hn::Or(high, padding), kD32, to + 2 * kLanes);
  };
  store_two(pair_even(byte[0], byte[1]), pair_even(byte[2], byte[3]), masks);
  store_two(pair_odd(byte[0], byte[1]), pair_odd(byte[2], byte[3]), masks + kLanes);
}

template <FormatId kFormat>
void pack_strip_of(const Blocks& blocks, PackedStrip& strip, std::uint8_t* non_finite) {
  auto any = hn::LoadU(kD8, non_finite);
  for (int k = 0; k < blocks.elements; ++k) {
    const DecodedBytes d = decode_bytes<kFormat>(hn::Load(kD8, strip.codes + k * kStrip), kExponentBiasLanes);
    hn::Store(d.exponent, kD8, strip.exponents + k * kStrip);
    store_values(d, strip.values + k * kStrip);
    any = hn::Or(any, hn::VecFromMask(kD8, d.non_finite));
  }
  hn::StoreU(any, kD8, non_finite);
  std::uint32_t* masks = strip.signs;
  for (int begin = 0; begin < blocks.elements; begin += blocks.block) {
    const int end = begin + blocks.block < blocks.elements ? begin + blocks.block : blocks.elements;
    for (int word = 0; word < blocks.words(); ++word, masks += kStrip)
      store_sign_masks(strip.codes + (begin + 32 * word) * kStrip, end - begin - 32 * word, masks);
  }
}

inline void pack_strip(FormatId format, const Blocks& blocks, PackedStrip& strip, std::uint8_t* non_finite) {
  if (format == FormatId::e4m3)
    pack_strip_of<FormatId::e4m3>(blocks, strip, non_finite);
  else
    pack_strip_of<FormatId::e5m2>(blocks, strip, non_finite);
}

template <FormatId kFormat>
bool pack_row_of(const Blocks& blocks, const std::uint8_t* codes, PackedRow& row) {
  HWY_ALIGN std::uint8_t high[kStrip];
  HWY_ALIGN std::uint8_t low[kStrip];
  HWY_ALIGN std::uint8_t exponent[kStrip];
  std::uint8_t sign_bits[kChunk / 8 + 8] = {};
  constexpr hn::Rebind<std::uint8_t, decltype(kD32)> quarter;
  const Floats nudge = hn::Set(kDF, kProductNudge);
  bool non_finite = false;
  for (int k = 0; k < blocks.elements; k += kStrip) {
    const Bytes code = hn::LoadU(kD8, codes + k);
    const DecodedBytes d = decode_bytes<kFormat>(code, kExponentBiasRows);
    non_finite |= !hn::AllFalse(kD8, d.non_finite);
    hn::StoreMaskBits(kD8, hn::TestBit(code, hn::Set(kD8, 0x80)), sign_bits + k / 8);
    hn::Store(d.high, kD8, high);
    hn::Store(d.low, kD8, low);
    hn::Store(d.exponent, kD8, exponent);
    for (int i = 0; i < kStrip; i += kLanes) {
      const Words h = hn::PromoteTo(kD32, hn::Load(quarter, high + i));
      const Words l = hn::PromoteTo(kD32, hn::Load(quarter, low + i));
      const Words e = hn::PromoteTo(kD32, hn::Load(quarter, exponent + i));
      const Floats value = hn::BitCast(kDF, hn::Or(hn::ShiftLeft<24>(h), hn::ShiftLeft<16>(l)));
      hn::Store(hn::Mul(value, nudge), kDF, row.values + k + i);
      const Words twice = hn::Or(e, hn::ShiftLeft<8>(e));
      hn::Store(hn::Or(twice, hn::ShiftLeft<16>(twice)), kD32, row.exponents + k + i);
    }
  }
  static_assert(std::endian::native == std::endian::little);
  std::uint32_t* mask = row.signs;
  for (int begin = 0; begin < blocks.elements; begin += blocks.block) {
    const int end = begin + blocks.block < blocks.elements ? begin + blocks.block : blocks.elements;
    for (int word = 0; word < blocks.words(); ++word) {
      const int first = begin + 32 * word;
      const int count = end - first < 32 ? end - first : 32;
      std::uint64_t bits = 0;
      std::memcpy(&bits, sign_bits + (first < kChunk ? first : 0) / 8, sizeof bits);
      *mask++ = count <= 0 ? 0
                           : static_cast<std::uint32_t>(bits >> first % 8) &
                                 static_cast<std::uint32_t>((std::uint64_t{1} << count) - 1) & kCountedSigns;
    }
  }
  return non_finite;
}

inline bool pack_row(FormatId format, const Blocks& blocks, const std::uint8_t* codes, PackedRow& row) {
  return format == FormatId::e4m3 ? pack_row_of<FormatId::e4m3>(blocks, codes, row)
                                  : pack_row_of<FormatId::e5m2>(blocks, codes, row);
}

// 16 x 16 bytes at a time in every 128-bit part of the vectors: four rounds of interleaving, in each of which
// vector i meets vector i + 8.
inline void transpose(const std::uint8_t* const* columns, int elements, std::uint8_t* codes) {
  HWY_ALIGN std::uint8_t lines[16 * kStrip];
  for (int k = 0; k < elements; k += kStrip) {
    for (int c = 0; c < kStrip; c += 16) {
      Bytes v[16];
      for (int i = 0; i < 16; ++i) v[i] = hn::LoadU(kD8, columns[c + i] + k);
      for (int round = 0; round < 4; ++round) {
        Bytes w[16];
        for (int i = 0; i < 8; ++i) {
          w[2 * i] = hn::InterleaveLower(kD8, v[i], v[i + 8]);
          w[2 * i + 1] = hn::InterleaveUpper(kD8, v[i], v[i + 8]);
        }
        for (int i = 0; i < 16; ++i) v[i] = w[i];
      }
      for (int i = 0; i < 16; ++i) hn::Store(v[i], kD8, lines + i * kStrip);
      const int last = elements - k < kStrip ? elements - k : kStrip;
      for (int i = 0; i < last; ++i)
        std::memcpy(codes + (k + i) * kStrip + c, lines + i % 16 * kStrip + i / 16 * 16, 16);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mmaemu::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard of one target
