// Builds the tensors of recorded calls, runs them and compares the results.
#include "replay.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iomanip>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "mmaemu/call.h"

#include "base/sha256.h"
#include "numpy_random.h"
#include "referee.h"

namespace mmaemu::testing {

namespace {

using golden::Api;
using golden::Call;

// Bits of a result, row-major.
struct Bits {
  std::vector<std::int64_t> shape;
  std::size_t item_size = 0;
  std::vector<std::byte> bytes;
};

std::string text(const std::vector<std::int64_t>& shape) {
  std::string joined = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) joined += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return joined + "]";
}

std::uint32_t item(const std::byte* bytes, std::size_t item_size, std::size_t index) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes + index * item_size, item_size);
  return bits;
}

std::string hex(std::uint32_t bits, std::size_t item_size) {
  std::ostringstream out;
  out << "0x" << std::hex << std::uppercase << std::setfill('0') << std::setw(static_cast<int>(2 * item_size))
      << bits;
  return out.str();
}

// The index of element `flat` of a row-major tensor.
std::vector<std::int64_t> index_of(std::size_t flat, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  auto rest = static_cast<std::int64_t>(flat);
  for (std::size_t i = shape.size(); i-- > 0; rest /= shape[i]) index[i] = rest % shape[i];
  return index;
}

// Empty where the bits are the recorded ones, else the first difference.
std::string difference(const Bits& got, const NpzArray& want, const std::vector<std::int64_t>& want_shape) {
  if (got.shape != want_shape) return "shape " + text(got.shape) + ", recorded " + text(want_shape);
  if (got.bytes.size() != want.bytes.size())
    return std::to_string(got.bytes.size()) + " bytes, recorded " + std::to_string(want.bytes.size());
  const std::size_t count = got.bytes.size() / got.item_size;
  std::size_t differing = 0;
  std::size_t first = 0;
  for (std::size_t i = count; i-- > 0;) {
    if (std::memcmp(&got.bytes[i * got.item_size], &want.bytes[i * got.item_size], got.item_size) == 0)
      continue;
    ++differing;
    first = i;
  }
  if (differing == 0) return "";
  return std::to_string(differing) + " of " + std::to_string(count) + " elements differ, first at " +
         text(index_of(first, got.shape)) + ": got " +
         hex(item(got.bytes.data(), got.item_size, first), got.item_size) + ", recorded " +
         hex(item(want.bytes.data(), got.item_size, first), got.item_size);
}

std::string text(const Error& error) {
  return std::string(class_name(error.kind)) + ": " + error.message;
}

template <class T>
std::vector<std::byte> to_bytes(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0; stride *= std::max<std::int64_t>(shape[i], 1))
    strides[i] = stride;
  return strides;
}

TensorDesc contiguous(std::string dtype, std::vector<std::int64_t> shape) {
  TensorDesc desc;
  desc.dtype = std::move(dtype);
  desc.strides = contiguous_strides(shape);
  desc.shape = std::move(shape);
  return desc;
}

// Codes as `rows` x `depth`, row-major; none are held where all are zero.
struct Codes {
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  std::size_t item_size = 1;
  const std::byte* bytes = nullptr;
};

// An operand in memory.
struct Operand {
  TensorDesc desc;  // [rows, depth], or [depth, rows] for the second operand
  std::vector<std::byte> storage;
  std::int64_t row_stride = 0;
  std::int64_t depth_stride = 0;

  OperandView view(const Codes& codes) const {
    return {storage.data() + desc.offset,
            find_format(desc.dtype).value(),
            codes.rows,
            codes.depth,
            row_stride,
            depth_stride};
  }
};

Operand lay_out(const Codes& codes, const golden::OperandSpec& spec, bool second) {
  Operand operand;
  const std::int64_t runs = spec.standard ? codes.rows : codes.depth;
  const std::int64_t run = spec.standard ? codes.depth : codes.rows;
  const std::int64_t leading = std::max<std::int64_t>(run + spec.ld_pad, 1);
  operand.row_stride = spec.standard ? leading : 1;
  operand.depth_stride = spec.standard ? 1 : leading;
  operand.desc.dtype = spec.dtype;
  operand.desc.offset = spec.offset;
  operand.desc.shape = {codes.rows, codes.depth};
  operand.desc.strides = {operand.row_stride, operand.depth_stride};
  if (second) {
    std::swap(operand.desc.shape[0], operand.desc.shape[1]);
    std::swap(operand.desc.strides[0], operand.desc.strides[1]);
  }
  operand.storage.resize(static_cast<std::size_t>(spec.offset + runs * leading + 1) * codes.item_size);
  if (codes.bytes == nullptr) return operand;
  for (std::int64_t row = 0; row < codes.rows; ++row) {
    for (std::int64_t k = 0; k < codes.depth; ++k) {
      const std::int64_t to = spec.offset + row * operand.row_stride + k * operand.depth_stride;
      const std::int64_t from = row * codes.depth + k;
      std::memcpy(&operand.storage[static_cast<std::size_t>(to) * codes.item_size],
                  codes.bytes + static_cast<std::size_t>(from) * codes.item_size, codes.item_size);
    }
  }
  return operand;
}

Codes codes_of(const NpzArray& array) {
  if (array.shape.size() != 2) throw std::runtime_error("array " + array.name + " is not a matrix");
  const std::size_t item_size = array.dtype == "<u2" ? 2 : 1;
  return {array.shape[0], array.shape[1], item_size, array.bytes.data()};
}

TensorDesc describe(const golden::ScaleSpec& scale) {
  return contiguous(scale.dtype, scale.shape);
}

TensorDesc describe(const golden::OutSpec& out, std::int64_t rows, std::int64_t columns) {
  TensorDesc desc = contiguous(out.dtype, out.shape.empty() ? std::vector{rows, columns} : out.shape);
  if (!out.contiguous) {
    std::reverse(desc.shape.begin(), desc.shape.end());
    desc.strides = contiguous_strides(desc.shape);
    std::reverse(desc.shape.begin(), desc.shape.end());
    std::reverse(desc.strides.begin(), desc.strides.end());
  }
  return desc;
}

// The split that a plan computes with; a zero-size call resolves none.
SplitK planned_split(const CallPlan& plan) {
  return plan.split ? SplitK{plan.split->S, plan.split->scheme} : SplitK{};
}

// The split that a call asks for or is recorded with.
bool splits_as_recorded(const SplitK& planned, const Call& call) {
  if (call.expected.resolved) return planned.S == *call.expected.resolved;
  if (const auto* split = std::get_if<SplitK>(&call.splitk)) return planned == *split;
  return planned == SplitK{};
}

// The result matrix of a call, in memory as the plan says; unwritten bytes are 0x7F.
class Result2d {
 public:
  Result2d(FormatId id, std::int64_t rows, std::int64_t columns, bool transposed)
      : format_(id),
        rows_(rows),
        columns_(columns),
        transposed_(transposed),
        item_size_(static_cast<std::size_t>(format(id).bytes())),
        storage_(static_cast<std::size_t>(rows * columns) * item_size_, std::byte{0x7F}) {}

  ResultView view() {
    return {storage_.data(), format_, rows_, columns_, transposed_ ? 1 : columns_, transposed_ ? rows_ : 1};
  }

  Bits bits() const {
    if (!transposed_) return {{rows_, columns_}, item_size_, storage_};
    Bits bits{{rows_, columns_}, item_size_, std::vector<std::byte>(storage_.size())};
    for (std::int64_t m = 0; m < rows_; ++m) {
      for (std::int64_t n = 0; n < columns_; ++n) {
        std::memcpy(&bits.bytes[static_cast<std::size_t>(m * columns_ + n) * item_size_],
                    &storage_[static_cast<std::size_t>(n * rows_ + m) * item_size_], item_size_);
      }
    }
    return bits;
  }

 private:
  FormatId format_;
  std::int64_t rows_;
  std::int64_t columns_;
  bool transposed_;
  std::size_t item_size_;
  std::vector<std::byte> storage_;
};

struct Generated {
  std::vector<std::byte> a;
  std::vector<std::byte> b;
};

Generated generate(const golden::SeededOperands& seeded) {
  NumpyGenerator random(seeded.seed);
  const auto operand = [&](std::int64_t rows) {
    std::vector<std::uint8_t> magnitudes(static_cast<std::size_t>(rows * seeded.K));
    std::vector<std::uint8_t> signs(magnitudes.size());
    random.integers(120, magnitudes);
    random.integers(2, signs);
    std::vector<std::byte> codes(magnitudes.size());
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = static_cast<std::byte>(magnitudes[i] | signs[i] << 7);
    return codes;
  };
  Generated generated;
  generated.a = operand(seeded.M);
  generated.b = operand(seeded.N);
  return generated;
}

// What a call came to: bits, or an error.
struct Answer {
  std::optional<Bits> bits;
  std::optional<Error> error;
  std::string inconsistency;  // the plan contradicts the call
};

Answer from_status(const Status& status, const Result2d& result) {
  if (!status.ok()) return {{}, status.error(), ""};
  return {result.bits(), {}, ""};
}

ScaledMmCall describe(const Call& call, const Profile& profile, const Operand& a, const Operand& b,
                      const Codes& a_codes, const Codes& b_codes) {
  ScaledMmCall described;
  described.input = a.desc;
  described.mat2 = b.desc;
  described.scale_a = describe(call.scale_a);
  described.scale_b = describe(call.scale_b);
  if (call.scale_result) described.scale_result = describe(*call.scale_result);
  if (call.bias)
    described.bias = contiguous(call.bias->dtype, {call.bias->length < 0 ? b_codes.rows : call.bias->length});
  if (call.out) described.out = describe(*call.out, a_codes.rows, b_codes.rows);
  described.out_dtype = call.out_dtype;
  described.use_fast_accum = call.fast;
  described.profile = profile;
  described.splitk = call.splitk;
  described.grad_mode = call.grad_mode;
  for (const std::string& name : call.requires_grad) {
    TensorDesc& desc = name == "input"     ? described.input
                       : name == "mat2"    ? described.mat2
                       : name == "scale_a" ? described.scale_a
                                           : described.scale_b;
    desc.requires_grad = true;
  }
  return described;
}

Answer answer_scaled_mm(const Target& target, const Call& call, const Profile& profile, const Codes& a_codes,
                        const Codes& b_codes) {
  const Operand a = lay_out(a_codes, call.input, false);
  const Operand b = lay_out(b_codes, call.mat2, true);
  const CallPlan plan = plan_scaled_mm(describe(call, profile, a, b, a_codes, b_codes));
  if (plan.error) return {{}, plan.error, ""};
  if (plan.M != a_codes.rows || plan.N != b_codes.rows || plan.K != a_codes.depth)
    return {{}, {}, "the plan is for " + text({plan.M, plan.N, plan.K})};
  if (plan.split && !splits_as_recorded(planned_split(plan), call))
    return {{}, {}, "the plan splits K in " + std::to_string(plan.split->S)};
  if (!call.out && plan.out_action != OutAction::allocate)
    return {{}, {}, "the plan uses an out= that is not there"};
  if (call.out && plan.out_action == OutAction::allocate) return {{}, {}, "the plan ignores out="};

  const std::optional<FormatId> result_format = find_format(plan.out_dtype);
  if (!result_format) return {{}, {}, "the plan has a result of " + plan.out_dtype};
  if (plan.out_action == OutAction::unchanged) return {{}, {}, "the plan leaves out= unchanged"};
  Result2d result(*result_format, plan.M, plan.N, plan.out_action == OutAction::transposed);
  Epilogue epilogue{call.scale_a.value, call.scale_b.value, {}};
  if (call.scale_result) epilogue.scale_result = call.scale_result->value;
  return from_status(
      target.scaled_mm(a.view(a_codes), b.view(b_codes), {profile.preset, call.fast, planned_split(plan)},
                       epilogue, result.view(), {}),
      result);
}

Answer answer_accumulate(const Target& target, const Call& call, const Profile& profile, const Codes& a_codes,
                         const Codes& b_codes) {
  const Operand a = lay_out(a_codes, call.input, false);
  const Operand b = lay_out(b_codes, call.mat2, false);
  AccumulateCall described;
  described.a = a.desc;
  described.b = b.desc;
  described.use_fast_accum = call.fast;
  described.profile = profile;
  described.splitk = call.splitk;
  if (call.out_dtype) described.out_dtype_for_split = *call.out_dtype;
  const CallPlan plan = plan_accumulate(described);
  if (plan.error) return {{}, plan.error, ""};
  Result2d result(FormatId::float32, a_codes.rows, b_codes.rows, false);
  return from_status(target.accumulate(a.view(a_codes), b.view(b_codes),
                                       {profile.preset, call.fast, planned_split(plan)}, result.view(), {}),
                     result);
}

// The epilogue of a call, done on a recorded accumulator.
Bits with_epilogue(const Bits& accumulators, const Call& call) {
  const Format& f = format(find_format(call.out_dtype.value()).value());
  const auto item_size = static_cast<std::size_t>(f.bytes());
  const std::size_t count = accumulators.bytes.size() / accumulators.item_size;
  const std::optional<float> scale_result =
      call.scale_result ? std::optional(call.scale_result->value) : std::nullopt;
  Bits result{accumulators.shape, item_size, std::vector<std::byte>(count * item_size)};
  for (std::size_t i = 0; i < count; ++i) {
    const auto accumulator = std::bit_cast<float>(item(accumulators.bytes.data(), accumulators.item_size, i));
    const std::uint32_t code =
        referee::epilogue_code(f, accumulator, call.scale_a.value, call.scale_b.value, scale_result);
    std::memcpy(&result.bytes[i * item_size], &code, item_size);
  }
  return result;
}

Bits diagonal_of(const Bits& matrix) {
  const std::int64_t extent = std::min(matrix.shape[0], matrix.shape[1]);
  Bits diagonal{{extent}, matrix.item_size, {}};
  for (std::int64_t i = 0; i < extent; ++i) {
    const auto* element =
        &matrix.bytes[static_cast<std::size_t>(i * (matrix.shape[1] + 1)) * matrix.item_size];
    diagonal.bytes.insert(diagonal.bytes.end(), element, element + matrix.item_size);
  }
  return diagonal;
}

std::string judge(const Answer& answer, const Call& call, golden::Archives& archives) {
  const golden::Expected& expected = call.expected;
  if (!answer.inconsistency.empty()) return answer.inconsistency;
  if (!expected.error.empty()) {
    if (!answer.error) return "accepted, recorded " + expected.error;
    return class_name(answer.error->kind) == expected.error
               ? ""
               : text(*answer.error) + "; recorded " + expected.error;
  }
  if (answer.error) return text(*answer.error) + "; recorded as accepted";
  Bits bits = call.api == Api::accumulate_then_epilogue ? with_epilogue(*answer.bits, call) : *answer.bits;
  if (call.diagonal) bits = diagonal_of(bits);
  if (!expected.sha256.empty()) return sha256(bits.bytes) == expected.sha256 ? "" : "the hash differs";
  const NpzArray& want = archives.array(*expected.bits);
  return difference(bits, want, expected.shape.empty() ? want.shape : expected.shape);
}

// `rows` x `depth` codes and contiguous fp32 numbers of a chain each.
struct DotOperands {
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  std::vector<std::uint8_t> a;
  std::vector<std::uint8_t> b;
  std::optional<std::vector<float>> c;
};

std::vector<float> floats(const NpzArray& array) {
  std::vector<float> values(static_cast<std::size_t>(array.size()));
  std::memcpy(values.data(), array.as<std::uint32_t>().data(), array.bytes.size());
  return values;
}

std::vector<std::uint8_t> bytes_of(const NpzArray& array) {
  const std::span<const std::uint8_t> codes = array.as<std::uint8_t>();
  return {codes.begin(), codes.end()};
}

// A tile's rows of a against its rows of b, every pair: [T, i, K] and [T, j, K] to [T * i * j, K].
void expand_tile(const NpzArray& a, const NpzArray& b, DotOperands& operands) {
  const std::span<const std::uint8_t> a_codes = a.as<std::uint8_t>();
  const std::span<const std::uint8_t> b_codes = b.as<std::uint8_t>();
  const std::int64_t tiles = a.shape.at(0);
  const std::int64_t depth = a.shape.at(2);
  const auto append = [depth](std::vector<std::uint8_t>& to, std::span<const std::uint8_t> from,
                              std::int64_t row) {
    const auto first = from.begin() + row * depth;
    to.insert(to.end(), first, first + depth);
  };
  operands.depth = depth;
  operands.rows = tiles * a.shape[1] * b.shape.at(1);
  for (std::int64_t t = 0; t < tiles; ++t) {
    for (std::int64_t i = 0; i < a.shape[1]; ++i) {
      for (std::int64_t j = 0; j < b.shape[1]; ++j) {
        append(operands.a, a_codes, t * a.shape[1] + i);
        append(operands.b, b_codes, t * b.shape[1] + j);
      }
    }
  }
}

Result<std::vector<float>> run_dot(const Target& target, const DotOperands& operands, FormatId a_format,
                                   FormatId b_format, const Preset& preset) {
  std::vector<float> d(static_cast<std::size_t>(operands.rows));
  const OperandView a{operands.a.data(), a_format, operands.rows, operands.depth, operands.depth, 1};
  const OperandView b{operands.b.data(), b_format, operands.rows, operands.depth, operands.depth, 1};
  const float* c = operands.c ? operands.c->data() : nullptr;
  const Status status = target.dot(a, b, c, preset, d.data(), {});
  if (!status.ok()) return status.error();
  return d;
}

// fp32 bits of the values of a format as codes.
std::vector<std::uint8_t> encode_exact(const NpzArray& values, const Format& f) {
  std::map<std::uint32_t, std::uint8_t> codes;
  for (std::uint32_t code = 0; code < 256; ++code)
    codes.emplace(std::bit_cast<std::uint32_t>(static_cast<float>(referee::value_of(f, code))),
                  static_cast<std::uint8_t>(code));
  std::vector<std::uint8_t> encoded;
  for (const std::uint32_t bits : values.as<std::uint32_t>()) {
    const auto found = codes.find(bits);
    if (found == codes.end())
      throw std::runtime_error("array " + values.name + " holds " + hex(bits, 4) + ", which is no value of " +
                               std::string(f.name));
    encoded.push_back(found->second);
  }
  return encoded;
}

}  // namespace

Outcome replay_dot(const Target& target, const golden::DotCase& recorded, golden::Archives& archives) {
  const NpzArray& a = archives.array(recorded.a);
  const NpzArray& b = archives.array(recorded.b);
  const NpzArray& d = archives.array(recorded.d);
  DotOperands operands;
  if (recorded.tile) {
    expand_tile(a, b, operands);
  } else {
    operands.rows = a.shape.at(0);
    operands.depth = a.shape.at(1);
    operands.a = bytes_of(a);
    operands.b = bytes_of(b);
  }
  if (recorded.c) operands.c = floats(archives.array(*recorded.c));
  const Result<std::vector<float>> got =
      run_dot(target, operands, recorded.a_format, recorded.b_format, recorded.preset);
  if (!got.ok()) return {1, {recorded.id + ": " + text(got.error())}};
  const std::string wrong = difference({d.shape, sizeof(float), to_bytes(got.value())}, d, d.shape);
  if (wrong.empty()) return {1, {}};
  return {1, {recorded.id + ": " + wrong}};
}

Outcome replay_calls(const Target& target, const golden::CallCase& recorded, golden::Archives& archives) {
  const Result<Profile> profile = find_profile(recorded.profile);
  if (!profile.ok()) return {0, {recorded.id + ": " + text(profile.error())}};
  const Generated generated = recorded.seeded ? generate(*recorded.seeded) : Generated{};
  Outcome outcome;
  for (const Call& call : recorded.calls) {
    Codes a;
    Codes b;
    if (call.zero_operands) {
      a = {call.zero_operands->at(0), call.zero_operands->at(2)};
      b = {call.zero_operands->at(1), call.zero_operands->at(2)};
    } else if (recorded.seeded) {
      a = {recorded.seeded->M, recorded.seeded->K, 1, generated.a.data()};
      b = {recorded.seeded->N, recorded.seeded->K, 1, generated.b.data()};
    } else {
      a = codes_of(archives.array(recorded.a));
      b = codes_of(archives.array(recorded.b));
    }
    const Answer answer = call.api == Api::scaled_mm ? answer_scaled_mm(target, call, profile.value(), a, b)
                                                     : answer_accumulate(target, call, profile.value(), a, b);
    ++outcome.outputs;
    const std::string wrong = judge(answer, call, archives);
    if (!wrong.empty()) outcome.failures.push_back(recorded.id + ", output " + call.name + ": " + wrong);
  }
  return outcome;
}

Outcome replay_toolbox(const Target& target, const golden::ToolboxSet& recorded, golden::Archives& archives) {
  const NpzArray& a = archives.array(recorded.a);
  const NpzArray& d = archives.array(recorded.d);
  DotOperands operands;
  operands.rows = a.shape.at(0);
  operands.depth = a.shape.at(1);
  operands.a = encode_exact(a, format(recorded.format));
  operands.b = encode_exact(archives.array(recorded.b), format(recorded.format));
  if (!recorded.zero_c) operands.c = floats(archives.array(recorded.c));
  const Result<std::vector<float>> got =
      run_dot(target, operands, recorded.format, recorded.format, recorded.preset);
  if (!got.ok()) return {0, {recorded.id + ": " + text(got.error())}};
  const std::string wrong = difference({d.shape, sizeof(float), to_bytes(got.value())}, d, d.shape);
  if (wrong.empty()) return {operands.rows, {}};
  return {operands.rows, {recorded.id + ": " + wrong}};
}

}  // namespace mmaemu::testing
