// From FP8 codes to what chains read: fp32 values, exponent bytes, sign masks. Integer work, independent of
// the rounding mode.
#if defined(MMAEMU_CPU_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MMAEMU_CPU_PACK_INL_H
#undef MMAEMU_CPU_PACK_INL_H
#else
#define MMAEMU_CPU_PACK_INL_H
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

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

// What every magnitude (a code without its sign) of a format is packed as.
template <FormatId kFormat>
struct MagnitudeTable {
  static constexpr const Format& f = format(kFormat);
  static constexpr auto kMaxFinite = static_cast<std::uint8_t>(f.max_finite());  // those above are not finite
  alignas(64) std::array<std::uint8_t, 128> high{};
  alignas(64) std::array<std::uint8_t, 128> low{};
  alignas(64) std::array<std::uint8_t, 128> exponent{};

  constexpr MagnitudeTable() {
    for (std::uint32_t code = 0; code < 128; ++code) {
      const Decoded d = decode(f, code);
      high[code] = static_cast<std::uint8_t>(top_half(f, code) >> 8);
      low[code] = static_cast<std::uint8_t>(top_half(f, code));
      exponent[code] = static_cast<std::uint8_t>(
          d.kind == NumberClass::finite ? d.exponent + kExponentBiasLanes : kExponentOfZero);
    }
  }
};
template <FormatId kFormat>
inline constexpr MagnitudeTable<kFormat> kMagnitudes;

struct ValueBytes {
  Bytes high;  // bits 24-31 of fp32, the sign included
  Bytes low;   // bits 16-23; the others are zero
};

#if HWY_TARGET == HWY_AVX3_DL
HWY_INLINE Bytes look_up(const std::array<std::uint8_t, 128>& table, Bytes codes) {
  const Bytes lower = hn::Load(kD8, table.data());
  const Bytes upper = hn::Load(kD8, table.data() + 64);
  return Bytes{_mm512_permutex2var_epi8(lower.raw, codes.raw, upper.raw)};  // has no use for the sign
}

template <FormatId kFormat>
class Decoder {
 public:
  explicit HWY_INLINE Decoder(Bytes codes) : codes_(codes) {}
  HWY_INLINE ValueBytes value() const {
    return {hn::OrAnd(look_up(table.high, codes_), codes_, hn::Set(kD8, 0x80)), look_up(table.low, codes_)};
  }
  HWY_INLINE Bytes exponent() const { return look_up(table.exponent, codes_); }

 private:
  static constexpr const MagnitudeTable<kFormat>& table = kMagnitudes<kFormat>;
  Bytes codes_;
};
#else
// A normal number's fp32 bits are its code moved up, with another bias; zero and subnormals are looked up.
template <FormatId kFormat>
class Decoder {
 public:
  explicit HWY_INLINE Decoder(Bytes codes)
      : sign_(hn::And(codes, hn::Set(kD8, 0x80))), magnitude_(hn::AndNot(hn::Set(kD8, 0x80), codes)) {
    const auto non_finite = hn::Gt(magnitude_, hn::Set(kD8, table.kMaxFinite));
    magnitude_ = hn::IfThenZeroElse(non_finite, magnitude_);
  }
  HWY_INLINE ValueBytes value() const {
    // fp32's exponent field begins at bit 23, the top bit of the low byte.
    const Bytes high = hn::Add(hn::ShiftRight<kFraction + 1>(magnitude_), hn::Set(kD8, (127 - f.bias) / 2));
    const Bytes low = hn::ShiftLeft<7 - kFraction>(magnitude_);
    return {hn::Or(sign_, choose(table.high, high)), choose(table.low, low)};
  }
  HWY_INLINE Bytes exponent() const {
    const Bytes rebias = hn::Set(kD8, static_cast<std::uint8_t>(kExponentBiasLanes - f.bias));
    return choose(table.exponent, hn::Add(hn::ShiftRight<kFraction>(magnitude_), rebias));
  }

 private:
  static constexpr const MagnitudeTable<kFormat>& table = kMagnitudes<kFormat>;
  static constexpr const Format& f = format(kFormat);
  static constexpr int kFraction = f.fraction_bits;
  static constexpr std::uint8_t kSmall = 8;  // no subnormal is above, and a table of 16 bytes has them

  HWY_INLINE Bytes choose(const std::array<std::uint8_t, 128>& of_small, Bytes of_others) const {
    const Bytes index = hn::And(magnitude_, hn::Set(kD8, kSmall - 1));
    const Bytes looked_up = hn::TableLookupBytes(hn::LoadDup128(kD8, of_small.data()), index);
    return hn::IfThenElse(hn::Lt(magnitude_, hn::Set(kD8, kSmall)), looked_up, of_others);
  }

  Bytes sign_;
  Bytes magnitude_;
};
#endif

HWY_INLINE Bytes larger_magnitude(Bytes magnitude, Bytes codes) {
  return hn::Max(magnitude, hn::AndNot(hn::Set(kD8, 0x80), codes));
}

// fp32 vectors 0..3 of a strip from the two upper bytes of each column.
HWY_INLINE void to_values(const ValueBytes& d, Floats (&values)[4]) {
  const auto high = hn::BitCast(kD16, d.high);
  const auto low = hn::BitCast(kD16, d.low);
  const Words even = hn::BitCast(kD32, hn::OddEven(hn::BitCast(kD8, hn::ShiftLeft<8>(high)), d.low));
  const Words odd = hn::BitCast(kD32, hn::OddEven(d.high, hn::BitCast(kD8, hn::ShiftRight<8>(low))));
  const Words upper = hn::Set(kD32, 0xFFFF0000U);
  values[0] = hn::BitCast(kDF, hn::ShiftLeft<16>(even));
  values[1] = hn::BitCast(kDF, hn::ShiftLeft<16>(odd));
  values[2] = hn::BitCast(kDF, hn::And(even, upper));
  values[3] = hn::BitCast(kDF, hn::And(odd, upper));
}

// The sign bits of up to 8 elements of each column: element i is bit i.
template <int kElement = 0>
HWY_INLINE Bytes sign_byte(StripCodes codes, int elements, Bytes bits) {
  if (kElement >= elements) return bits;
  const auto code = hn::BitCast(kD16, hn::Load(kD8, codes.at(kElement)));
  bits = hn::OrAnd(bits, hn::BitCast(kD8, hn::ShiftRight<7 - kElement>(code)), hn::Set(kD8, 1 << kElement));
  if constexpr (kElement < 7) return sign_byte<kElement + 1>(codes, elements, bits);
  return bits;
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
HWY_INLINE void store_sign_masks(StripCodes codes, int elements, std::uint32_t* masks) {
  const Words padding = hn::Set(kD32, padding_bits(elements));
  Words byte[4];
  for (int g = 0; g < 4; ++g)
    byte[g] = hn::BitCast(kD32, sign_byte(codes.from(8 * g), elements - 8 * g, hn::Zero(kD8)));
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
HWY_INLINE void note_non_finite(Bytes largest, std::uint8_t* non_finite) {
  const auto found = hn::Gt(largest, hn::Set(kD8, kMagnitudes<kFormat>.kMaxFinite));
  hn::StoreU(hn::Or(hn::LoadU(kD8, non_finite), hn::VecFromMask(kD8, found)), kD8, non_finite);
}

template <FormatId kFormat>
void pack_strip_of(const Blocks& blocks, StripCodes codes, PackedStrip& strip, std::uint8_t* non_finite) {
  Bytes largest = hn::Zero(kD8);
  for (int k = 0; k < blocks.elements; ++k) {
    const Bytes code = hn::Load(kD8, codes.at(k));
    const Decoder<kFormat> decoder(code);
    hn::Store(decoder.exponent(), kD8, strip.exponents + k * kStrip);
    Floats values[4];
    to_values(decoder.value(), values);
    for (int j = 0; j < 4; ++j) hn::Store(values[j], kDF, strip.values + k * kStrip + j * kLanes);
    largest = larger_magnitude(largest, code);
  }
  note_non_finite<kFormat>(largest, non_finite);
  std::uint32_t* masks = strip.signs;
  for (int begin = 0; begin < blocks.elements; begin += blocks.block) {
    const int end = std::min(begin + blocks.block, blocks.elements);
    for (int word = 0; word < blocks.words(); ++word, masks += kStrip)
      store_sign_masks(codes.from(begin + 32 * word), end - begin - 32 * word, masks);
  }
}

inline void pack_strip(FormatId format, const Blocks& blocks, StripCodes codes, PackedStrip& strip,
                       std::uint8_t* non_finite) {
  if (format == FormatId::e4m3)
    pack_strip_of<FormatId::e4m3>(blocks, codes, strip, non_finite);
  else
    pack_strip_of<FormatId::e5m2>(blocks, codes, strip, non_finite);
}

// Table indices: byte from * lanes + i in lane i's byte kByte (4: in all), 0x80 elsewhere.
template <int kByte>
struct LaneBytes {
  alignas(64) std::uint8_t of[4][kStrip];
  constexpr LaneBytes() : of{} {
    for (int from = 0; from < 4; ++from)
      for (int i = 0; i < kStrip; ++i)
        of[from][i] = static_cast<std::uint8_t>(kByte == 4 || i % 4 == kByte ? from * kLanes + i / 4 : 0x80);
  }
};
template <int kByte>
inline constexpr LaneBytes<kByte> kLaneBytes;

// The bytes of a vector spread over 32-bit lanes.
class SpreadBytes {
 public:
  // Lane i has byte first + i in its byte kByte, else zeros; with kByte = 4 in all of its bytes. `first` is a
  // multiple of the lanes.
#if HWY_TARGET == HWY_AVX3_DL
  explicit HWY_INLINE SpreadBytes(Bytes bytes) : bytes_(bytes) {}
  template <int kByte>
  HWY_INLINE Bytes at(int first) const {
    constexpr __mmask64 kInEveryLane = 0x1111111111111111;
    const Bytes from = hn::Load(kD8, kLaneBytes<4>.of[first / kLanes]);
    return Bytes{_mm512_maskz_permutexvar_epi8(kByte == 4 ? ~__mmask64{0} : kInEveryLane << kByte, from.raw,
                                               bytes_.raw)};
  }

 private:
  Bytes bytes_;
#else
  explicit HWY_INLINE SpreadBytes(Bytes bytes) {
    hn::Store(bytes, kD8, bytes_);
  }
  template <int kByte>
  HWY_INLINE Bytes at(int first) const {
    const Bytes part = hn::LoadDup128(kD8, bytes_ + first / 16 * 16);
    return hn::TableLookupBytesOr0(part, hn::Load(kD8, kLaneBytes<kByte>.of[first % 16 / kLanes]));
  }

 private:
  HWY_ALIGN std::uint8_t bytes_[kStrip];
#endif
};

// Bit i is the sign of codes[i].
HWY_INLINE std::uint64_t sign_bits(Bytes codes) {
  using Bits = std::conditional_t<kStrip == 64, std::uint64_t,
                                  std::conditional_t<kStrip == 32, std::uint32_t, std::uint16_t>>;
  static_assert(std::endian::native == std::endian::little);
  std::uint8_t bytes[8];
  hn::StoreMaskBits(kD8, hn::TestBit(codes, hn::Set(kD8, 0x80)), bytes);
  Bits bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

template <FormatId kFormat>
bool pack_row_of(const Blocks& blocks, const std::uint8_t* codes, PackedRow& row) {
  const Floats nudge = hn::Set(kDF, kProductNudge);
  const Bytes rebias = hn::Set(kD8, kExponentBiasRows - kExponentBiasLanes);
  Bytes largest = hn::Zero(kD8);
  static_assert(kChunk == 64);
  std::uint64_t signs = 0;
  for (int k = 0; k < blocks.elements; k += kStrip) {
    const Bytes code = hn::LoadU(kD8, codes + k);
    const Decoder<kFormat> decoder(code);
    const ValueBytes value_bytes = decoder.value();
    largest = larger_magnitude(largest, code);
    signs |= sign_bits(code) << k;
    const SpreadBytes high(value_bytes.high);
    const SpreadBytes low(value_bytes.low);
    const SpreadBytes exponent(hn::Add(decoder.exponent(), rebias));
    for (int i = 0; i < kStrip; i += kLanes) {
      const Bytes value = hn::Or(high.at<3>(i), low.at<2>(i));
      hn::Store(hn::Mul(hn::BitCast(kDF, value), nudge), kDF, row.values + k + i);
      hn::Store(hn::BitCast(kD32, exponent.at<4>(i)), kD32, row.exponents + k + i);
    }
  }
  std::uint32_t* mask = row.signs;
  for (int begin = 0; begin < blocks.elements; begin += blocks.block) {
    const int end = std::min(begin + blocks.block, blocks.elements);
    for (int word = 0; word < blocks.words(); ++word) {
      const int count = std::clamp(end - begin - 32 * word, 0, 32);
      const std::uint64_t bits = count == 0 ? 0 : signs >> (begin + 32 * word);
      *mask++ = static_cast<std::uint32_t>(bits & ((std::uint64_t{1} << count) - 1)) & kCountedSigns;
    }
  }
  return !hn::AllFalse(kD8, hn::Gt(largest, hn::Set(kD8, kMagnitudes<kFormat>.kMaxFinite)));
}

inline bool pack_row(FormatId format, const Blocks& blocks, const std::uint8_t* codes, PackedRow& row) {
  return format == FormatId::e4m3 ? pack_row_of<FormatId::e4m3>(blocks, codes, row)
                                  : pack_row_of<FormatId::e5m2>(blocks, codes, row);
}

// 16 elements of every column at a time, each 128-bit part of the vectors for itself: vector i has element
// bytes of columns i, 16 + i, ... A round of interleaving brings vectors i and i + 8 together; four rounds
// transpose.
inline void transpose(const std::uint8_t* const* columns, int elements, std::uint8_t* codes) {
  for (int k = 0; k < elements; k += 16) {
    Bytes v[16];
    for (int i = 0; i < 16; ++i) {
      v[i] = hn::LoadDup128(kD8, columns[i] + k);
      for (int part = 1; part < kStrip / 16; ++part)
        v[i] = hn::IfThenElse(hn::FirstN(kD8, static_cast<std::size_t>(16 * part)), v[i],
                              hn::LoadDup128(kD8, columns[16 * part + i] + k));
    }
    for (int round = 0; round < 4; ++round) {
      Bytes w[16];
      for (int i = 0; i < 8; ++i) {
        w[2 * i] = hn::InterleaveLower(kD8, v[i], v[i + 8]);
        w[2 * i + 1] = hn::InterleaveUpper(kD8, v[i], v[i + 8]);
      }
      for (int i = 0; i < 16; ++i) v[i] = w[i];
    }
    for (int i = 0; i < 16 && k + i < elements; ++i) hn::Store(v[i], kD8, codes + (k + i) * kStrip);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mmaemu::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard of one target
