// The call contract: which fault is reported where several meet, in which words, and what a plan holds.
// Recorded accepts and rejects are replayed in tests/conformance.
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "mmaemu/call.h"

#include "../platform/scoped_environment.h"

namespace mmaemu {
namespace {

using testing::ScopedVariable;

TensorDesc tensor(std::string dtype, std::vector<std::int64_t> shape) {
  TensorDesc desc;
  desc.dtype = std::move(dtype);
  desc.strides.resize(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) desc.strides[d] = stride;
  desc.shape = std::move(shape);
  return desc;
}

TensorDesc transposed(TensorDesc t) {
  std::swap(t.shape[0], t.shape[1]);
  std::swap(t.strides[0], t.strides[1]);
  return t;
}

// M = 32, N = 64, K = 128 in e4m3 to bfloat16 on hopper, unsplit.
ScaledMmCall valid_call() {
  ScaledMmCall call;
  call.input = tensor("float8_e4m3fn", {32, 128});
  call.mat2 = transposed(tensor("float8_e4m3fn", {64, 128}));
  call.scale_a = tensor("float32", {});
  call.scale_b = tensor("float32", {1});
  call.out_dtype = "bfloat16";
  call.profile = find_profile("hopper").value();
  call.splitk = std::int64_t{1};
  call.grad_mode = true;
  return call;
}

// Something wrong with a call, and what is said of it. `spoil` sets every field that its fault depends on, so
// that it can be applied after others.
struct Fault {
  std::string name;
  std::function<void(ScaledMmCall&)> spoil;
  ErrorKind kind;
  std::vector<std::string> parts;  // the argument, what was found, what is needed
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

// A tensor beside the call's others.
TensorDesc beside(const ScaledMmCall& call, TensorDesc t) {
  t.device = call.input.device;
  return t;
}

void row_wise(ScaledMmCall& call) {
  call.scale_a = beside(call, tensor("float32", {call.input.shape[0], 1}));
  call.scale_b = beside(call, tensor("float32", {1, call.mat2.shape[1]}));
}

void tensor_wise(ScaledMmCall& call) {
  call.scale_a = call.scale_b = beside(call, tensor("float32", {}));
}

// In the documented order (docs/semantics.md, section 6): of two faults the earlier one is reported.
const std::vector<Fault>& faults() {
  using enum ErrorKind;
  static const std::vector<Fault> all{
      {"StridesOfNoTensor",
       [](auto& c) {
         c.input = tensor("float8_e4m3fn", {32, 128});
         c.input.strides = {1};
       },
       value_error,
       {"input", "[32, 128]", "[1]", "strides"}},
      {"OutOfNoShape",
       [](auto& c) {
         c.out = tensor("bfloat16", {-1, 64});
       },
       value_error,
       {"out", "[-1, 64]", "negative"}},
      // torch's checks
      {"InputNoMatrix",
       [](auto& c) { c.input = tensor("float8_e4m3fn", {128}); },
       reference_rejects,
       {"input", "[128]", "[M, K]"}},
      {"Mat2NoMatrix",
       [](auto& c) {
         c.mat2 = tensor("float8_e4m3fn", {1, 128, 64});
       },
       reference_rejects,
       {"mat2", "[1, 128, 64]", "[K, N]"}},
      {"InnerSizes",
       [](auto& c) {
         c.mat2 = transposed(tensor("float8_e4m3fn", {64, 144}));
       },
       reference_rejects,
       {"input [32, ", "mat2 [144, 64]", "must agree"}},
      {"DtypeOfScaleA",
       [](auto& c) { c.scale_a = tensor("float64", {}); },
       reference_rejects,
       {"scale_a", "float64", "float32"}},
      {"DtypeOfScaleB",
       [](auto& c) { c.scale_b = tensor("bfloat16", {}); },
       reference_rejects,
       {"scale_b", "bfloat16", "float32"}},
      {"Scaling",
       [](auto& c) {
         c.scale_a = tensor("float32", {32});
         c.scale_b = tensor("float32", {1, 64});
       },
       reference_rejects,
       {"scale_a [32]", "scale_b [1, 64]", "[32, 1]", "[1, 64]", "one element"}},
      {"StridedRowWiseScales",
       [](auto& c) {
         row_wise(c);
         c.scale_a.strides = {2, 1};
       },
       reference_rejects,
       {"row-wise", "contiguous", "[2, 1]"}},
      {"ScaleResult",
       [](auto& c) { c.scale_result = tensor("float32", {2}); },
       reference_rejects,
       {"scale_result", "[2]", "one float32"}},
      {"LengthOfBias",
       [](auto& c) { c.bias = tensor("bfloat16", {65}); },
       reference_rejects,
       {"bias", "65", "N = "}},
      {"MultipleOfK",
       [](auto& c) {
         c.input = tensor("float8_e4m3fn", {32, 120});
         c.mat2 = transposed(tensor("float8_e4m3fn", {64, 120}));
       },
       reference_rejects,
       {"K must", "120", "multiple of 16", "[32, 120]"}},
      {"MultipleOfN",
       [](auto& c) {
         c.mat2 = transposed(tensor("float8_e4m3fn", {72, 128}));
         tensor_wise(c);
         c.bias.reset();
       },
       reference_rejects,
       {"N must", "72", "multiple of 16"}},
      {"DtypeOfOut",
       [](auto& c) {
         c.out_dtype = "bfloat16";
         c.out = tensor("float16", {32, 64});
       },
       reference_rejects,
       {"out_dtype", "bfloat16", "float16", "the same"}},
      {"InputNoFloat8",
       [](auto& c) { c.input.dtype = "bfloat16"; },
       reference_rejects,
       {"input", "bfloat16", "float8_e4m3fn"}},
      {"Mat2NoFloat8",
       [](auto& c) { c.mat2.dtype = "int8"; },
       reference_rejects,
       {"mat2", "int8", "float8_e5m2"}},
      {"BothE5m2",
       [](auto& c) { c.input.dtype = c.mat2.dtype = "float8_e5m2"; },
       reference_rejects,
       {"float8_e5m2", "float8_e4m3fn"}},
      {"BiasOfFloat32",
       [](auto& c) {
         c.bias = beside(c, tensor("bfloat16", {64}));
         c.out_dtype = "float32";
         c.out.reset();
       },
       reference_rejects,
       {"bias", "float32"}},
      {"DtypeOfBias",
       [](auto& c) {
         c.bias = tensor("float32", {64});
         c.out_dtype = "bfloat16";
         c.out.reset();
       },
       reference_rejects,
       {"bias", "float32", "bfloat16 or float16"}},
      {"BiasOfAnotherResult",
       [](auto& c) {
         c.bias = tensor("float16", {64});
         c.out_dtype = "bfloat16";
         c.out.reset();
       },
       reference_rejects,
       {"bfloat16 result", "float16"}},
      {"Devices",
       [](auto& c) {
         c.input.device = c.mat2.device = c.scale_a.device = "cpu";
         c.scale_b.device = "cuda:0";
       },
       reference_rejects,
       {"scale_b", "cpu", "cuda:0"}},
      // cuBLAS's
      {"InputColumnMajor",
       [](auto& c) {
         c.input.strides = {1, 32};
       },
       reference_rejects,
       {"input", "row-major", "[1, 32]"}},
      {"Mat2RowMajor",
       [](auto& c) {
         c.mat2.strides = {64, 1};
       },
       reference_rejects,
       {"mat2", "column-major", "[64, 1]"}},
      {"FormatOfInput",
       [](auto& c) { c.input.dtype = "float8_e4m3fnuz"; },
       reference_rejects,
       {"input", "float8_e4m3fnuz", "float8_e4m3fn"}},
      {"FormatOfMat2",
       [](auto& c) { c.mat2.dtype = "float8_e5m2fnuz"; },
       reference_rejects,
       {"mat2", "float8_e5m2fnuz", "float8_e5m2"}},
      {"ResultFormat",
       [](auto& c) {
         c.out_dtype = "float64";
         c.out.reset();
       },
       reference_rejects,
       {"float64"}},
      {"AddressOfInput", [](auto& c) { c.input.offset = 8; }, reference_rejects, {"input", "16 bytes", "8"}},
      {"AddressOfMat2", [](auto& c) { c.mat2.offset = 24; }, reference_rejects, {"mat2", "16 bytes", "24"}},
      {"LeadingOfInput",
       [](auto& c) {
         c.input.strides = {136, 1};
       },
       reference_rejects,
       {"leading dimension", "input", "136", "16"}},
      {"LeadingOfMat2",
       [](auto& c) {
         c.mat2.strides = {1, 136};
       },
       reference_rejects,
       {"leading dimension", "mat2", "136"}},
      {"RowWiseResult",
       [](auto& c) {
         row_wise(c);
         c.out_dtype = "float16";
         c.out.reset();
         c.bias.reset();
       },
       reference_rejects,
       {"row-wise", "float16", "bfloat16"}},
      // the profile's
      {"RejectedByTheProfile",
       [](auto& c) {
         c.input.dtype = c.mat2.dtype = "float8_e4m3fn";
         c.out_dtype = "float8_e5m2";
         c.out.reset();
         tensor_wise(c);
       },
       reference_rejects,
       {"e4m3", "float8_e5m2", "hopper"}},
      // scope
      {"LegalBias",
       [](auto& c) {
         c.bias = beside(c, tensor("bfloat16", {64}));
         c.out_dtype = "bfloat16";
         c.out.reset();
       },
       unsupported_feature,
       {"bias"}},
      {"RowWise",
       [](auto& c) {
         row_wise(c);
         c.out_dtype = "bfloat16";
         c.out.reset();
       },
       unsupported_feature,
       {"row-wise", "one-element"}},
      {"RequiresGrad",
       [](auto& c) { c.scale_b.requires_grad = true; },
       unsupported_feature,
       {"scale_b", "requires grad", "no_grad"}},
      {"Device",
       [](auto& c) {
         for (TensorDesc* t : {&c.input, &c.mat2, &c.scale_a, &c.scale_b}) t->device = "xpu";
         for (std::optional<TensorDesc>* t : {&c.bias, &c.scale_result, &c.out})
           if (*t) (*t)->device = "xpu";
       },
       unsupported_feature,
       {"xpu", "cpu or cuda"}},
      // split, backend, plan
      {"BareSplit", [](auto& c) { c.splitk = std::int64_t{2}; }, value_error, {"2", "contiguous"}},
      {"UnknownBackend", [](auto& c) { c.backend = "fast"; }, value_error, {"fast", "reference", "cuda:v4"}},
      {"SchemeOfAnotherPreset",
       [](auto& c) {
         c.splitk = SplitK{2, SplitScheme::serial};
       },
       value_error,
       {"serial", "hopper", "contiguous"}},
  };
  return all;
}

CallPlan plan(const std::function<void(ScaledMmCall&)>& change) {
  ScaledMmCall call = valid_call();
  change(call);
  return plan_scaled_mm(call);
}

std::string text(const std::optional<Error>& error) {
  return error ? std::string(class_name(error->kind)) + ": " + error->message : "no error";
}

void expect_fault(const CallPlan& plan, const Fault& fault) {
  ASSERT_TRUE(plan.error) << "accepted";
  EXPECT_EQ(plan.error->kind, fault.kind) << text(plan.error);
  for (const std::string& part : fault.parts)
    EXPECT_NE(plan.error->message.find(part), std::string::npos)
        << "\"" << part << "\" is not in: " << text(plan.error);
}

class Faults : public ::testing::TestWithParam<Fault> {};

TEST_P(Faults, SayWhatIsWrongAndWhatIsNeeded) {
  expect_fault(plan(GetParam().spoil), GetParam());
}

INSTANTIATE_TEST_SUITE_P(ScaledMm, Faults, ::testing::ValuesIn(faults()),
                         [](const auto& test) { return test.param.name; });

TEST(FaultOrder, EarlierOfAnyTwoIsReported) {
  for (std::size_t later = 0; later < faults().size(); ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      SCOPED_TRACE(faults()[earlier].name + " before " + faults()[later].name);
      expect_fault(plan([&](ScaledMmCall& call) {
                     faults()[later].spoil(call);
                     faults()[earlier].spoil(call);
                   }),
                   faults()[earlier]);
    }
  }
}

TEST(ScaledMmPlan, OfAValidCallHoldsWhatItWouldDo) {
  const CallPlan p = plan([](auto&) {});
  EXPECT_EQ(p.error, std::nullopt) << text(p.error);
  EXPECT_EQ(p.M, 32);
  EXPECT_EQ(p.N, 64);
  EXPECT_EQ(p.K, 128);
  EXPECT_EQ(p.out_dtype, "bfloat16");
  EXPECT_EQ(p.out_action, OutAction::allocate);
  EXPECT_FALSE(p.zero_size);
  ASSERT_TRUE(p.split);
  EXPECT_EQ(p.split->S, 1);
  EXPECT_EQ(p.split->source, "explicit");
  EXPECT_EQ(p.backend, "reference");
  EXPECT_EQ(p.fallbacks, (std::vector<std::string>{"cuda: tensors on cpu"}));
  EXPECT_TRUE(p.warnings.empty());
}

TEST(ScaledMmPlan, ResultDtypeIsOutDtypeElseThatOfOutElseOfInput) {
  const auto dtype = [](std::optional<std::string> out_dtype, std::optional<TensorDesc> out) {
    const CallPlan p = plan([&](auto& c) {
      c.out_dtype = out_dtype;
      c.out = out;
    });
    EXPECT_EQ(p.error, std::nullopt) << text(p.error);
    return p.out_dtype;
  };
  EXPECT_EQ(dtype("float32", std::nullopt), "float32");
  EXPECT_EQ(dtype(std::nullopt, tensor("float16", {32, 64})), "float16");
  EXPECT_EQ(dtype("float16", tensor("float16", {32, 64})), "float16");
  EXPECT_EQ(dtype(std::nullopt, std::nullopt), "float8_e4m3fn");
}

TEST(ScaledMmPlan, RowsAreFreeAndLegalVariantsAreAccepted) {
  const std::vector<std::pair<const char*, std::function<void(ScaledMmCall&)>>> variants{
      {"M = 1",
       [](auto& c) {
         c.input = tensor("float8_e4m3fn", {1, 128});
       }},
      {"M = 33",
       [](auto& c) {
         c.input = tensor("float8_e4m3fn", {33, 128});
       }},
      {"mixed formats", [](auto& c) { c.input.dtype = "float8_e5m2"; }},
      {"mixed formats to float8_e5m2",
       [](auto& c) {
         c.mat2.dtype = "float8_e5m2";
         c.out_dtype = "float8_e5m2";
       }},
      {"scale of one element in three dimensions",
       [](auto& c) {
         c.scale_a = tensor("float32", {1, 1, 1});
       }},
      {"scale_result",
       [](auto& c) {
         c.scale_result = tensor("float32", {1, 1});
       }},
      {"padded input",
       [](auto& c) {
         c.input.strides = {144, 1};
       }},
      {"padded mat2",
       [](auto& c) {
         c.mat2.strides = {1, 144};
       }},
      {"offsets of 16", [](auto& c) { c.input.offset = c.mat2.offset = 16; }},
      // Neither row- nor column-major: torch copies it, wherever it started.
      {"input of another layout",
       [](auto& c) {
         c.input.strides = {300, 2};
         c.input.offset = 7;
       }},
      {"one row of any stride",
       [](auto& c) {
         c.input = tensor("float8_e4m3fn", {1, 128});
         c.input.strides = {131, 1};
       }},
      {"requires grad without grad mode",
       [](auto& c) {
         c.input.requires_grad = true;
         c.grad_mode = false;
       }},
  };
  for (const auto& [name, change] : variants) {
    const CallPlan p = plan(change);
    EXPECT_EQ(p.error, std::nullopt) << name << ": " << text(p.error);
  }
}

TEST(ScaledMmPlan, EveryTensorThatRequiresGradIsNamed) {
  const std::vector<std::pair<std::string, std::function<TensorDesc&(ScaledMmCall&)>>> tensors{
      {"input", [](auto& c) -> TensorDesc& { return c.input; }},
      {"mat2", [](auto& c) -> TensorDesc& { return c.mat2; }},
      {"scale_a", [](auto& c) -> TensorDesc& { return c.scale_a; }},
      {"scale_b", [](auto& c) -> TensorDesc& { return c.scale_b; }},
      {"scale_result", [](auto& c) -> TensorDesc& { return c.scale_result.emplace(tensor("float32", {})); }},
      {"out",
       [](auto& c) -> TensorDesc& {
         return c.out.emplace(tensor("bfloat16", {32, 64}));
       }},
  };
  for (const auto& [name, of] : tensors) {
    const CallPlan p = plan([&](auto& c) { of(c).requires_grad = true; });
    ASSERT_TRUE(p.error) << name;
    EXPECT_EQ(p.error->kind, ErrorKind::unsupported_feature);
    EXPECT_EQ(p.error->message.find(name + " requires grad"), 0U) << p.error->message;
  }
}

TEST(ZeroSize, ReturnsBeforeCublasIsAsked) {
  struct Shape {
    std::int64_t M, N, K;
  };
  // Each of these would be rejected by cuBLAS, the profile, the scope, the split, the backend or the plan.
  const std::vector<std::function<void(ScaledMmCall&)>> later_faults{
      [](auto& c) { c.input.dtype = "float8_e4m3fnuz"; },
      [](auto& c) { c.mat2.dtype = "float8_e8m0fnu"; },
      [](auto& c) { c.out_dtype = "float64"; },
      [](auto& c) { c.out_dtype = "float8_e5m2"; },
      [](auto& c) { c.input.offset = 3; },
      [](auto& c) { c.input.requires_grad = true; },
      [](auto& c) {
        c.splitk = SplitK{2, SplitScheme::serial};
      },
      [](auto& c) { c.splitk = SplitAuto{}; },
      [](auto& c) { c.backend = "cuda:v4"; },
  };
  for (const Shape& s : {Shape{0, 64, 128}, {32, 0, 128}, {32, 64, 0}, {0, 0, 0}}) {
    for (std::size_t i = 0; i < later_faults.size(); ++i) {
      const CallPlan p = plan([&](auto& c) {
        c.input = tensor("float8_e4m3fn", {s.M, s.K});
        c.mat2 = transposed(tensor("float8_e4m3fn", {s.N, s.K}));
        later_faults[i](c);
      });
      EXPECT_EQ(p.error, std::nullopt) << "fault " << i << ": " << text(p.error);
      EXPECT_TRUE(p.zero_size);
      EXPECT_EQ(p.backend, "none (zero-size result)");
      EXPECT_EQ(p.split, std::nullopt);
      EXPECT_TRUE(p.warnings.empty());
    }
    const CallPlan torch_rejects = plan([&](auto& c) {
      c.input = tensor("bfloat16", {s.M, s.K});
      c.mat2 = transposed(tensor("float8_e4m3fn", {s.N, s.K}));
    });
    ASSERT_TRUE(torch_rejects.error);
    EXPECT_EQ(torch_rejects.error->kind, ErrorKind::reference_rejects);
  }
}

TEST(OutArgument, DecidesWhatBecomesOfTheResult) {
  const auto with_out = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    return plan([&](auto& c) {
      c.out = tensor("bfloat16", shape);
      if (!strides.empty()) c.out->strides = strides;
    });
  };
  EXPECT_EQ(with_out({32, 64}, {}).out_action, OutAction::write);
  EXPECT_EQ(with_out({32, 64}, {80, 1}).out_action, OutAction::write);
  EXPECT_EQ(with_out({32, 64}, {1, 32}).out_action, OutAction::transposed);
  EXPECT_EQ(with_out({32, 64}, {1, 40}).out_action, OutAction::transposed);

  const CallPlan unchanged = with_out({32, 64}, {128, 2});
  EXPECT_EQ(unchanged.error, std::nullopt);
  EXPECT_EQ(unchanged.out_action, OutAction::unchanged);
  EXPECT_EQ(unchanged.backend, "none (out= is returned unchanged)");
  ASSERT_EQ(unchanged.warnings.size(), 1U);
  EXPECT_EQ(unchanged.warnings[0].kind, WarningKind::user);
  EXPECT_NE(unchanged.warnings[0].message.find("[128, 2]"), std::string::npos);

  const CallPlan resized = with_out({32, 65}, {});
  EXPECT_EQ(resized.out_action, OutAction::resize);
  ASSERT_EQ(resized.warnings.size(), 1U);
  EXPECT_EQ(resized.warnings[0].kind, WarningKind::user);
  EXPECT_NE(resized.warnings[0].message.find("[32, 65]"), std::string::npos);
  EXPECT_NE(resized.warnings[0].message.find("[32, 64]"), std::string::npos);
  // An empty out= is resized without a word.
  EXPECT_EQ(with_out({0}, {}).out_action, OutAction::resize);
  EXPECT_TRUE(with_out({0}, {}).warnings.empty());
}

TEST(OutArgument, IsNotResizedByACallThatRaises) {
  const CallPlan p = plan([](auto& c) {
    c.out = tensor("bfloat16", {5});
    c.backend = "cuda:h4";
  });
  ASSERT_TRUE(p.error);
  EXPECT_EQ(p.error->kind, ErrorKind::backend_unavailable);
  EXPECT_TRUE(p.warnings.empty());
}

// A row of the H100's table: 32 x 64 x 5760, e5m2 by e4m3 to float16, fast, splits in two
// (oracle/auto.jsonl).
ScaledMmCall recorded_row() {
  ScaledMmCall call = valid_call();
  call.input = tensor("float8_e5m2", {32, 5760});
  call.mat2 = transposed(tensor("float8_e4m3fn", {64, 5760}));
  call.out_dtype = "float16";
  call.use_fast_accum = true;
  call.splitk = SplitAuto{};
  return call;
}

TEST(SplitKey, IsTheCallsShapeFormatsAndAccumulation) {
  const ScopedVariable no_cuda("MMAEMU_DISABLE_CUDA", "1");
  const CallPlan p = plan_scaled_mm(recorded_row());
  ASSERT_TRUE(p.split) << text(p.error);
  EXPECT_EQ(p.split->S, 2);
  EXPECT_EQ(p.split->scheme, SplitScheme::contiguous);
  EXPECT_EQ(p.split->source, "table");
}

// cuBLAS computes mat2.t() @ input.t() into it: M and N, and the formats, change places.
TEST(SplitKey, OfAColumnMajorOutIsTransposed) {
  const ScopedVariable no_cuda("MMAEMU_DISABLE_CUDA", "1");
  ScaledMmCall call = recorded_row();
  call.input = tensor("float8_e4m3fn", {64, 5760});
  call.mat2 = transposed(tensor("float8_e5m2", {32, 5760}));
  call.out = transposed(tensor("float16", {32, 64}));
  const CallPlan p = plan_scaled_mm(call);
  EXPECT_EQ(p.out_action, OutAction::transposed);
  ASSERT_TRUE(p.split) << text(p.error);
  EXPECT_EQ(p.split->S, 2);
  EXPECT_EQ(p.split->source, "table");
}

// The tables hold operands without padding: others are neither looked up nor asked for.
TEST(SplitKey, OfPaddedOperandsIsInNoTable) {
  const ScopedVariable no_cuda("MMAEMU_DISABLE_CUDA", "1");
  for (const bool pad_input : {true, false}) {
    ScaledMmCall call = recorded_row();
    if (pad_input) {
      call.input.strides = {5776, 1};
    } else {
      call.mat2.strides = {1, 5776};
    }
    const CallPlan p = plan_scaled_mm(call);
    ASSERT_TRUE(p.error);
    EXPECT_EQ(p.error->kind, ErrorKind::split_unknown);
  }
}

TEST(Maturity, IsWarnedOfOncePerName) {
  const auto with_profile = [](const char* name) {
    return plan([&](auto& c) {
      c.profile = find_profile(name).value();
      c.use_fast_accum = true;
    });
  };
  EXPECT_TRUE(with_profile("hopper").warnings.empty());
  const CallPlan profile = with_profile("hopper-experimental");
  ASSERT_EQ(profile.warnings.size(), 1U) << text(profile.error);
  EXPECT_EQ(profile.warnings[0].kind, WarningKind::experimental_preset);
  EXPECT_NE(profile.warnings[0].message.find("hopper-experimental"), std::string::npos);
  const CallPlan preset = with_profile("b200-mma-sync-experimental");
  ASSERT_EQ(preset.warnings.size(), 1U) << text(preset.error);
  EXPECT_EQ(preset.warnings[0].kind, WarningKind::experimental_preset);
  EXPECT_NE(preset.warnings[0].message.find("b200_mma_sync"), std::string::npos);
  EXPECT_NE(profile.warnings[0].once_key, preset.warnings[0].once_key);
  EXPECT_FALSE(profile.warnings[0].once_key.empty());
  EXPECT_FALSE(preset.warnings[0].once_key.empty());
}

TEST(Maturity, IsWarnedOfBeforeTheSplitIsDecided) {
  const CallPlan p = plan([](auto& c) {
    c.profile = find_profile("b200-mma-sync-experimental").value();
    c.splitk = SplitAuto{};
  });
  ASSERT_TRUE(p.error);
  EXPECT_EQ(p.error->kind, ErrorKind::split_unknown);
  ASSERT_EQ(p.warnings.size(), 1U);
  EXPECT_EQ(p.warnings[0].kind, WarningKind::experimental_preset);
}

// The plan's own checks come last, and slow accumulation before the scheme.
TEST(ScaledMmPlan, PresetWithoutAGemmLevelIsUnsupported) {
  for (const SplitRequest& splitk :
       {SplitRequest{std::int64_t{1}}, SplitRequest{SplitK{2, SplitScheme::serial}}}) {
    const CallPlan p = plan([&](auto& c) {
      c.profile = find_profile("b200-mma-sync-experimental").value();
      c.splitk = splitk;
    });
    ASSERT_TRUE(p.error);
    EXPECT_EQ(p.error->kind, ErrorKind::unsupported_feature) << text(p.error);
  }
}

TEST(CustomPreset, OfAProfileTakesAnyScheme) {
  const CallPlan p = plan([](auto& c) {
    c.profile.preset.name = "mine";
    c.profile.preset.maturity = "custom";
    c.splitk = SplitK{2, SplitScheme::pairwise};
  });
  EXPECT_EQ(p.error, std::nullopt) << text(p.error);
  ASSERT_FALSE(p.warnings.empty());
  EXPECT_EQ(p.warnings[0].kind, WarningKind::experimental_preset);
}

// --- accumulate

AccumulateCall valid_accumulate() {
  AccumulateCall call;
  call.a = tensor("float8_e4m3fn", {3, 7});
  call.b = tensor("float8_e5m2", {5, 7});
  call.profile = find_profile("ada").value();
  call.splitk = std::int64_t{1};
  call.grad_mode = true;
  return call;
}

CallPlan plan_of(const std::function<void(AccumulateCall&)>& change) {
  AccumulateCall call = valid_accumulate();
  change(call);
  return plan_accumulate(call);
}

TEST(AccumulatePlan, TakesAnySizeLayoutAndPairOfFormats) {
  const std::vector<std::function<void(AccumulateCall&)>> variants{
      [](auto&) {},
      [](auto& c) { c.a.dtype = "float8_e5m2"; },
      [](auto& c) {
        c.a.strides = {1, 3};
      },
      [](auto& c) {
        c.b.strides = {0, 0};
      },
      [](auto& c) { c.a.offset = 3; },
      [](auto& c) {
        c.splitk = SplitK{7, SplitScheme::pairwise};
      },
      [](auto& c) {
        c.a.requires_grad = true;
        c.grad_mode = false;
      },
  };
  for (const auto& change : variants) {
    const CallPlan p = plan_of(change);
    EXPECT_EQ(p.error, std::nullopt) << text(p.error);
    EXPECT_EQ(p.M, 3);
    EXPECT_EQ(p.N, 5);
    EXPECT_EQ(p.K, 7);
    EXPECT_EQ(p.out_dtype, "float32");
    EXPECT_EQ(p.backend, "reference");
  }
}

TEST(AccumulatePlan, ReportsTheEarlierOfTwoFaults) {
  struct AccumulateFault {
    std::function<void(AccumulateCall&)> spoil;
    ErrorKind kind;
    std::vector<std::string> parts;
  };
  using enum ErrorKind;
  const std::vector<AccumulateFault> all{
      {[](auto& c) {
         c.a = tensor("float8_e4m3fn", {3, 7});
         c.a.strides = {1};
       },
       value_error,
       {"a:", "strides"}},
      {[](auto& c) { c.a.dtype = "float16"; }, type_error, {"a ", "float16", "float8_e4m3fn"}},
      {[](auto& c) { c.b.dtype = "float8_e4m3fnuz"; }, type_error, {"b ", "float8_e4m3fnuz"}},
      {[](auto& c) { c.out_dtype_for_split = "float64"; }, type_error, {"out_dtype_for_split", "float64"}},
      {[](auto& c) { c.a = tensor("float8_e4m3fn", {7}); }, value_error, {"a [M, K]", "[7]"}},
      {[](auto& c) {
         c.b = tensor("float8_e4m3fn", {1, 5, 7});
       },
       value_error,
       {"b [N, K]", "[1, 5, 7]"}},
      {[](auto& c) {
         c.b = tensor("float8_e4m3fn", {5, 8});
       },
       value_error,
       {"a [3, 7]", "b [5, 8]", "K"}},
      {[](auto& c) {
         c.a.device = "cpu";
         c.b.device = "cuda:1";
       },
       value_error,
       {"cpu", "cuda:1", "one device"}},
      {[](auto& c) { c.b.requires_grad = true; }, unsupported_feature, {"b requires grad"}},
      {[](auto& c) { c.a.device = c.b.device = "xpu"; }, unsupported_feature, {"xpu"}},
      {[](auto& c) { c.splitk = std::int64_t{3}; }, value_error, {"3", "serial"}},
      {[](auto& c) { c.backend = "fast"; }, value_error, {"fast", "reference"}},
      {[](auto& c) {
         c.splitk = SplitK{3, SplitScheme::contiguous};
       },
       value_error,
       {"contiguous", "ada"}},
  };
  for (std::size_t later = 0; later < all.size(); ++later) {
    for (std::size_t earlier = 0; earlier <= later; ++earlier) {
      SCOPED_TRACE(std::to_string(earlier) + " before " + std::to_string(later));
      const CallPlan p = plan_of([&](auto& c) {
        all[later].spoil(c);
        all[earlier].spoil(c);
      });
      expect_fault(p, {"", {}, all[earlier].kind, all[earlier].parts});
    }
  }
}

TEST(AccumulatePlan, OfZeroSizeDecidesNothing) {
  for (const auto& [m, n, k] : {std::tuple{0, 5, 7}, {3, 0, 7}, {3, 5, 0}}) {
    const CallPlan p = plan_of([&](auto& c) {
      c.a = tensor("float8_e4m3fn", {m, k});
      c.b = tensor("float8_e4m3fn", {n, k});
      c.splitk = SplitAuto{};
    });
    EXPECT_EQ(p.error, std::nullopt) << text(p.error);
    EXPECT_TRUE(p.zero_size);
    EXPECT_EQ(p.backend, "none (zero-size result)");
  }
}

TEST(AccumulatePlan, LooksItsSplitUpUnderTheResultAskedFor) {
  const ScopedVariable no_cuda("MMAEMU_DISABLE_CUDA", "1");
  AccumulateCall call = valid_accumulate();
  const ScaledMmCall row = recorded_row();
  call.a = row.input;
  call.b = transposed(row.mat2);
  call.profile = row.profile;
  call.use_fast_accum = true;
  call.splitk = SplitAuto{};
  call.out_dtype_for_split = "float16";
  const CallPlan p = plan_accumulate(call);
  ASSERT_TRUE(p.split) << text(p.error);
  EXPECT_EQ(p.split->S, 2);
  EXPECT_EQ(p.out_dtype, "float32");
}

}  // namespace
}  // namespace mmaemu
