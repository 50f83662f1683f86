#include "model/model.h"

#include <array>
#include <bit>

#include "model/block.h"

namespace mmaemu::model {
namespace {

// Every code of an 8-bit operand format as the inner loops want it. A format with wider codes would want a
// larger one.
using TermTable = std::array<Term, 256>;

constexpr TermTable make_terms(const Format& f) {
  TermTable table{};
  for (std::uint32_t code = 0; code < table.size(); ++code) {
    const Decoded d = decode(f, code);
    if (d.kind != NumberClass::finite) continue;
    const auto significand = static_cast<std::int32_t>(d.significand);
    table[code] = {d.negative ? -significand : significand, d.exponent};
  }
  return table;
}

constexpr TermTable kE4M3Terms = make_terms(format(FormatId::e4m3));
constexpr TermTable kE5M2Terms = make_terms(format(FormatId::e5m2));

const TermTable& terms(FormatId id) {
  return id == FormatId::e4m3 ? kE4M3Terms : kE5M2Terms;
}

// One operand row.
class Row {
 public:
  Row(const OperandView& view, std::int64_t row)
      : codes_(static_cast<const std::uint8_t*>(view.data) + row * view.row_stride),
        stride_(view.depth_stride),
        terms_(terms(view.format)),
        format_(format(view.format)) {}
  Term term(std::int64_t k) const { return terms_[code(k)]; }
  Decoded number(std::int64_t k) const { return decode(format_, code(k)); }
  int fraction_bits() const { return format_.fraction_bits; }

 private:
  std::uint8_t code(std::int64_t k) const { return codes_[k * stride_]; }
  const std::uint8_t* codes_;
  std::int64_t stride_;
  const TermTable& terms_;
  const Format& format_;
};

// A position in a chain, as a K index.
class ChainCursor {
 public:
  explicit ChainCursor(const Chain& chain) : chain_(&chain), k_(chain.begin) {}
  std::int64_t k() const { return k_; }
  void advance() {
    ++k_;
    if (++in_run_ == chain_->width) {
      in_run_ = 0;
      k_ += chain_->stride - chain_->width;
    }
  }

 private:
  const Chain* chain_;
  std::int64_t k_;
  std::int64_t in_run_ = 0;
};

// The block step over consecutive blocks of nfma elements, each result the next c.
std::uint32_t run_chain(const BlockRules& rules, std::int64_t nfma, const Row& a, const Row& b,
                        const Chain& chain, std::uint32_t c) {
  ChainCursor block(chain);
  for (std::int64_t left = chain.length; left > 0; left -= nfma) {
    const std::int64_t count = left < nfma ? left : nfma;
    ChainCursor end = block;
    c = block_step(rules, c, [&](auto&& use) {
      ChainCursor at = block;
      for (std::int64_t i = 0; i < count; ++i, at.advance()) use(a.term(at.k()), b.term(at.k()));
      end = at;
    });
    block = end;
  }
  return c;
}

// The IEEE value of c + sum a_k b_k where that is not finite.
std::optional<std::uint32_t> non_finite_sum(const Row& a, const Row& b, std::int64_t depth, std::uint32_t c) {
  bool positive = false;
  bool negative = false;
  const auto note = [&](bool sign) { (sign ? negative : positive) = true; };
  const Decoded start = decode_f32(c);
  if (start.kind == NumberClass::nan) return kNaN32;
  if (start.kind == NumberClass::infinity) note(start.negative);
  for (std::int64_t k = 0; k < depth; ++k) {
    const Decoded x = a.number(k);
    const Decoded y = b.number(k);
    if (x.kind == NumberClass::nan || y.kind == NumberClass::nan) return kNaN32;
    if (x.kind != NumberClass::infinity && y.kind != NumberClass::infinity) continue;
    if (x.kind == NumberClass::zero || y.kind == NumberClass::zero) return kNaN32;
    note(x.negative != y.negative);
  }
  if (positive && negative) return kNaN32;
  if (positive || negative) return negative ? kInfinity32 | kSign32 : kInfinity32;
  return std::nullopt;
}

std::vector<bool> rows_with_non_finite(const OperandView& view) {
  const Format& f = format(view.format);
  std::array<bool, 256> non_finite{};
  for (std::uint32_t code = 0; code < non_finite.size(); ++code) {
    const NumberClass kind = decode(f, code).kind;
    non_finite[code] = kind == NumberClass::infinity || kind == NumberClass::nan;
  }
  std::vector<bool> rows(static_cast<std::size_t>(view.rows));
  for (std::int64_t r = 0; r < view.rows; ++r) {
    const auto* codes = static_cast<const std::uint8_t*>(view.data) + r * view.row_stride;
    for (std::int64_t k = 0; k < view.depth && !rows[static_cast<std::size_t>(r)]; ++k)
      rows[static_cast<std::size_t>(r)] = non_finite[codes[k * view.depth_stride]];
  }
  return rows;
}

BlockRules rules_for(const Preset& preset, const Row& a, const Row& b) {
  return BlockRules(preset, a.fraction_bits() + b.fraction_bits());
}

}  // namespace

Accumulator::Accumulator(const OperandView& a, const OperandView& b, const Preset& preset,
                         const AccumulationPlan& plan)
    : a_(a),
      b_(b),
      preset_(preset),
      plan_(plan),
      a_non_finite_(rows_with_non_finite(a)),
      b_non_finite_(rows_with_non_finite(b)) {}

std::uint32_t Accumulator::operator()(std::int64_t m, std::int64_t n) const {
  const Row a(a_, m);
  const Row b(b_, n);
  if (a_non_finite_[static_cast<std::size_t>(m)] || b_non_finite_[static_cast<std::size_t>(n)])
    if (const auto special = non_finite_sum(a, b, plan_.depth(), 0)) return *special;
  const BlockRules rules = rules_for(preset_, a, b);
  const auto partial = [&](std::int64_t s) -> std::uint32_t {
    if (s >= plan_.partials()) return 0;
    if (plan_.fast()) return run_chain(rules, preset_.nfma, a, b, plan_.chain(s, 0), 0);
    std::uint32_t sum = 0;
    for (std::int64_t i = 0; i < plan_.chains(s); ++i)
      sum = add_f32(sum, run_chain(rules, preset_.nfma, a, b, plan_.chain(s, i), 0));
    return sum;
  };
  const std::int64_t S = plan_.split().S;
  if (plan_.split().scheme != SplitScheme::pairwise) {
    // Splits without elements come last and add +0 to a sum that is never -0: they may be left out.
    std::uint32_t sum = partial(0);
    for (std::int64_t s = 1; s < plan_.partials(); ++s) sum = add_f32(sum, partial(s));
    return sum;
  }
  const std::int64_t half = S / 2 + S % 2;
  std::uint32_t sum = partial(S - 1);
  for (std::int64_t i = 0; i < half && i < plan_.partials(); ++i) {
    const std::uint32_t slot = i + half < S - 1 ? add_f32(partial(i), partial(i + half)) : partial(i);
    sum = add_f32(sum, slot);
  }
  return sum;
}

std::uint32_t dot(const OperandView& a, const OperandView& b, std::int64_t row, std::uint32_t c,
                  const Preset& preset) {
  const Row x(a, row);
  const Row y(b, row);
  if (const auto special = non_finite_sum(x, y, a.depth, c)) return *special;
  const Chain chain{.begin = 0, .length = a.depth, .width = a.depth, .stride = 0};
  return run_chain(rules_for(preset, x, y), preset.nfma, x, y, chain, c);
}

std::uint32_t apply_epilogue(std::uint32_t accumulator, const Epilogue& epilogue, const Format& out) {
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  const std::uint32_t alpha = multiply_f32(bits(epilogue.scale_a), bits(epilogue.scale_b));
  std::uint32_t y = multiply_add_zero_f32(accumulator, alpha);
  if (out.saturates && epilogue.scale_result) y = multiply_f32(y, bits(*epilogue.scale_result));
  return convert_from_f32(out, y);
}

}  // namespace mmaemu::model
