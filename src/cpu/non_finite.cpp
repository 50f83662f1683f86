// The cost is proportional to the non-finite elements, not to K times the outputs they reach.
#include "cpu/non_finite.h"

#include <array>

#include "cpu/gather.h"

namespace mmaemu::cpu {
namespace {

using CodeTable = std::array<Decoded, 256>;

constexpr CodeTable decode_all(const Format& f) {
  CodeTable table{};
  for (std::uint32_t code = 0; code < table.size(); ++code) table[code] = decode(f, code);
  return table;
}

constexpr CodeTable kE4M3 = decode_all(format(FormatId::e4m3));
constexpr CodeTable kE5M2 = decode_all(format(FormatId::e5m2));

const CodeTable& table_of(const OperandView& view) {
  return view.format == FormatId::e4m3 ? kE4M3 : kE5M2;
}

std::uint8_t product_state(const Decoded& x, const Decoded& y) {
  if (x.kind == NumberClass::nan || y.kind == NumberClass::nan) return kHasNaN;
  if (x.kind != NumberClass::infinity && y.kind != NumberClass::infinity) return 0;
  if (x.kind == NumberClass::zero || y.kind == NumberClass::zero) return kHasNaN;
  return x.negative != y.negative ? kHasNegativeInfinity : kHasPositiveInfinity;
}

}  // namespace

void note_non_finite(const OperandView& one, std::int64_t row, const OperandView& other, std::uint8_t* states,
                     std::int64_t stride) {
  const CodeTable& one_table = table_of(one);
  const CodeTable& other_table = table_of(other);
  for (std::int64_t k = 0; k < one.depth; ++k) {
    const Decoded& x = one_table[*code_at(one, row, k)];
    if (x.kind != NumberClass::nan && x.kind != NumberClass::infinity) continue;
    for (std::int64_t i = 0; i < other.rows; ++i)
      states[i * stride] |= product_state(x, other_table[*code_at(other, i, k)]);
    if (x.kind == NumberClass::nan) return;  // every output of the row is NaN: nothing changes that
  }
}

std::uint32_t non_finite_value(std::uint8_t state) {
  constexpr std::uint32_t kInfinity = 0x7F800000;
  constexpr std::uint32_t kSign = 0x80000000;
  if (state == kHasPositiveInfinity) return kInfinity;
  if (state == kHasNegativeInfinity) return kInfinity | kSign;
  return format(FormatId::float32).canonical_nan;
}

}  // namespace mmaemu::cpu
