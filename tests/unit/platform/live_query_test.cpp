// The live query and matches_device against a fake driver and a fake cuBLASLt (fake_*.cpp). Attribute numbers
// and types are those of cublasLt.h.
#include "platform/live_query.h"

#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <tuple>

#include "unit/platform/fake_cuda.h"
#include "unit/platform/scoped_environment.h"

namespace mmaemu {
namespace {

using testing::FakeCublasLt;
using testing::FakeDriver;
using testing::FakeLayout;
using testing::ScopedVariable;

const std::string kFolder = MMAEMU_FAKE_CUDA_DIR "/";

// A fake library and its state. It stays loaded, as torch's cuBLASLt does, and is then found by its SONAME.
template <class State>
State& load_fake(const std::string& path, const char* state) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return *reinterpret_cast<State* (*)()>(dlsym(library, state))();
}

template <class T>
std::vector<unsigned char> bytes_of(T value) {
  std::vector<unsigned char> bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

class LiveQueries : public ::testing::Test {
 protected:
  LiveQueries() {
    cuda_ = FakeDriver{};
    cuda_.devices = {{"NVIDIA H100 PCIe", 114}, {"NVIDIA GeForce RTX 4060", 24}};
    lt_ = FakeCublasLt{};
    lt_.config = {{0, 66}, {1, 20}, {2, 3}, {5, 1}};  // algo, tile, split, custom option
  }

  static Profile profile(std::string_view name = "hopper") { return find_profile(name).value(); }

  static SplitQuery query() {
    SplitQuery q;
    q.M = 17;
    q.N = 80;
    q.K = 8208;
    q.a_format = "e4m3";
    q.b_format = "e5m2";
    q.out_dtype = "bfloat16";
    q.fast = true;
    return q;
  }

  static LiveAnswer ask(const SplitQuery& q, const Profile& p) {
    const Result<LiveAnswer> answer = cublaslt_query().ask(q, p);
    if (answer.ok()) return answer.value();
    ADD_FAILURE() << answer.error().message;
    return {};
  }

  static void expect_no_choice(const LiveAnswer& answer, const char* reason) {
    EXPECT_EQ(answer.choice, std::nullopt);
    EXPECT_NE(answer.reason.find(reason), std::string::npos) << answer.reason;
  }

  static std::string driver_path() { return kFolder + "libcuda.so.1"; }

  ScopedVariable driver_variable_{"MMAEMU_LIBCUDA_PATH", driver_path()};
  ScopedVariable enabled_{"MMAEMU_DISABLE_CUDA", std::nullopt};
  FakeDriver& cuda_ = load_fake<FakeDriver>(driver_path(), "fake_libcuda");
  FakeCublasLt& lt_ = load_fake<FakeCublasLt>(kFolder + "libcublasLt.so.12", "fake_cublaslt");
};

TEST_F(LiveQueries, DescribeTheProductAsTorchDoes) {
  ask(query(), profile());
  EXPECT_EQ(lt_.queries, 1);
  EXPECT_EQ(lt_.compute_type, 68);  // CUBLAS_COMPUTE_32F
  EXPECT_EQ(lt_.scale_type, 0);     // CUDA_R_32F
  EXPECT_EQ(lt_.requested, 1);
  std::vector<int> attributes;
  for (const auto& [attribute, value] : lt_.description) attributes.push_back(attribute);
  EXPECT_EQ(attributes, (std::vector{3, 4, 17, 18, 25}));
  EXPECT_EQ(lt_.description[3], bytes_of(std::int32_t{1}));  // TRANSA: CUBLAS_OP_T
  EXPECT_EQ(lt_.description[4], bytes_of(std::int32_t{0}));  // TRANSB: CUBLAS_OP_N
  for (const int scale_pointer : {17, 18}) {                 // of A and of B
    EXPECT_EQ(lt_.description[scale_pointer].size(), sizeof(void*));
    EXPECT_NE(lt_.description[scale_pointer], bytes_of<void*>(nullptr));
  }
  EXPECT_EQ(lt_.description[25], bytes_of(std::int8_t{1}));  // FAST_ACCUM
  EXPECT_EQ(lt_.a, (FakeLayout{29, 8208, 80, 8208}));        // mat2: K x N of e5m2
  EXPECT_EQ(lt_.b, (FakeLayout{28, 8208, 17, 8208}));        // mat1: K x M of e4m3
  EXPECT_EQ(lt_.c, (FakeLayout{14, 80, 17, 80}));            // N x M of bfloat16
  EXPECT_EQ(lt_.d, (FakeLayout{14, 80, 17, 80}));
  EXPECT_EQ(lt_.preference, (testing::Attributes{{1, bytes_of(std::uint64_t{1} << 20)}}));  // workspace only
  EXPECT_EQ(lt_.open, 0);
}

TEST_F(LiveQueries, DescribeSlowAccumulation) {
  SplitQuery q = query();
  q.fast = false;
  ask(q, profile());
  EXPECT_EQ(lt_.description[25], bytes_of(std::int8_t{0}));
}

TEST_F(LiveQueries, GiveEveryOutputItsTypeAndFp8OutputsAHalfPrecisionC) {
  for (const auto& [out, c, d] :
       {std::tuple{"float32", 0, 0}, std::tuple{"float16", 2, 2}, std::tuple{"bfloat16", 14, 14},
        std::tuple{"float8_e4m3fn", 2, 28}, std::tuple{"float8_e5m2", 2, 29}}) {
    SplitQuery q = query();
    q.out_dtype = out;
    ask(q, profile());
    EXPECT_EQ(lt_.c.type, c) << out;
    EXPECT_EQ(lt_.d.type, d) << out;
  }
}

TEST_F(LiveQueries, PromiseTransformerEnginesAlignment) {
  ask(query(), profile("hopper-te"));
  const auto aligned = bytes_of(std::uint32_t{256});
  EXPECT_EQ(
      lt_.preference,
      (testing::Attributes{
          {1, bytes_of(std::uint64_t{32} << 20)}, {5, aligned}, {6, aligned}, {7, aligned}, {8, aligned}}));
}

TEST_F(LiveQueries, ReturnWhatTheHeuristicChose) {
  EXPECT_EQ(ask(query(), profile()).choice, (AlgoChoice{66, 20, 3, 1}));
  lt_.config[2] = 0;
  EXPECT_EQ(ask(query(), profile()).choice, (AlgoChoice{66, 20, 1, 1}));
  lt_.config[2] = -1;
  expect_no_choice(ask(query(), profile()), "negative numSplitsK");
}

TEST_F(LiveQueries, DecideTheSplitWhereNoRowDoes) {
  const Result<SplitResolution> r = resolve_splitk(query(), profile(), SplitAuto{});
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r.value().decision,
            (SplitDecision{3, SplitScheme::contiguous, "live-query", true, std::nullopt,
                           "live query: algo 66, tile 20, numSplitsK 3, customOption 1"}));
  SplitQuery spelled = query();
  spelled.a_format = "float8_e4m3fn";
  EXPECT_TRUE(resolve_splitk(spelled, profile(), SplitAuto{}).ok());
  EXPECT_EQ(lt_.b.type, 28);
}

TEST_F(LiveQueries, TouchNoDeviceWhereAnythingElseDecides) {
  SplitQuery row = query();
  row.M = 16;
  row.N = 64;
  row.K = 8192;
  SplitQuery other_layout = query();
  other_layout.layout_std = false;
  SplitQuery empty = query();
  empty.M = 0;
  (void)resolve_splitk(row, profile(), SplitAuto{});
  (void)resolve_splitk(other_layout, profile(), SplitAuto{});
  (void)resolve_splitk(empty, profile(), SplitAuto{});
  (void)resolve_splitk(query(), profile("hopper-ws0"), SplitAuto{});
  (void)resolve_splitk(query(), profile("hopper-experimental"), SplitAuto{});
  (void)resolve_splitk(query(), profile(), SplitK{2, SplitScheme::contiguous});
  EXPECT_EQ(cuda_.calls, 0);
}

TEST_F(LiveQueries, EveryFailingFunctionMeansNoChoiceAndNoLeak) {
  for (const char* function : {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute",
                               "cublasLtMatrixLayoutCreate", "cublasLtMatmulPreferenceCreate",
                               "cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulAlgoGetHeuristic",
                               "cublasLtMatmulAlgoConfigGetAttribute"}) {
    lt_.failing = function;
    expect_no_choice(ask(query(), profile()), "status 7");
    EXPECT_EQ(lt_.open, 0) << function;
  }
  lt_.failing = "cublasLtGetProperty";
  expect_no_choice(ask(query(), profile()), "version");
}

TEST_F(LiveQueries, NoAlgorithmMeansNoChoice) {
  lt_.returned = 0;
  expect_no_choice(ask(query(), profile()), "no algorithm");
  lt_.returned = 1;
  lt_.state = 15;  // CUBLAS_STATUS_NOT_SUPPORTED
  expect_no_choice(ask(query(), profile()), "no algorithm");
}

TEST_F(LiveQueries, AnotherDeviceIsNotAsked) {
  cuda_.current = 1;
  expect_no_choice(ask(query(), profile()), "NVIDIA GeForce RTX 4060 with 24 SMs");
  EXPECT_EQ(lt_.queries, 0);
  EXPECT_TRUE(ask(query(), profile("ada")).choice.has_value());
}

TEST_F(LiveQueries, DisabledCudaTouchesNoLibrary) {
  const ScopedVariable disabled("MMAEMU_DISABLE_CUDA", "1");
  expect_no_choice(ask(query(), profile()), "MMAEMU_DISABLE_CUDA=1");
  EXPECT_FALSE(matches_device(profile()));
  EXPECT_EQ(cuda_.calls, 0);
}

TEST_F(LiveQueries, DisablingVariableOutOfRangeIsAValueError) {
  const ScopedVariable disabled("MMAEMU_DISABLE_CUDA", "yes");
  const Result<LiveAnswer> answer = cublaslt_query().ask(query(), profile());
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().kind, ErrorKind::value_error);
  EXPECT_FALSE(matches_device(profile()));
}

TEST_F(LiveQueries, MissingDriverMeansNoChoice) {
  const ScopedVariable missing("MMAEMU_LIBCUDA_PATH", kFolder + "no_such_library.so");
  expect_no_choice(ask(query(), profile()), "no usable CUDA driver");
  EXPECT_FALSE(matches_device(profile()));
}

TEST_F(LiveQueries, IncompleteDriverMeansNoChoice) {
  const ScopedVariable other("MMAEMU_LIBCUDA_PATH", kFolder + "libcublasLt.so.12");
  expect_no_choice(ask(query(), profile()), "no usable CUDA driver");
}

TEST_F(LiveQueries, IncompleteCublasLtMeansNoChoice) {
  load_fake<FakeCublasLt>(kFolder + "libcublasLt.so.78", "fake_cublaslt");
  Profile p = profile();
  p.cublaslt_version = "78.0.0";
  expect_no_choice(ask(query(), p), "libcublasLt.so.78 cannot be loaded");
  p.cublaslt_version = "77.0.0";
  expect_no_choice(ask(query(), p), "libcublasLt.so.77 cannot be loaded");
}

TEST_F(LiveQueries, BuildOfCublasLtIsThatOfItsFileName) {
  FakeCublasLt& named = load_fake<FakeCublasLt>(kFolder + "libcublasLt.so.79.1.2.3", "fake_cublaslt");
  const int version[] = {79, 1, 2};
  std::copy(std::begin(version), std::end(version), named.version);
  Profile p = profile();
  for (const auto& [wanted, matches] : {std::pair{"79.1.2.3", true}, std::pair{"79.1.2", true},
                                        std::pair{"79.1.2.4", false}, std::pair{"79.1.1", false}}) {
    p.cublaslt_version = wanted;
    EXPECT_EQ(matches_device(p), matches) << wanted;
  }
}

TEST_F(LiveQueries, CreateNoObjectsForAMatch) {
  EXPECT_TRUE(matches_device(profile()));
  EXPECT_EQ(lt_.queries, 0);
  lt_.failing = "cublasLtCreate";
  EXPECT_TRUE(matches_device(profile()));
}

TEST_F(LiveQueries, DeviceMatchesByNameSizeAndVersion) {
  EXPECT_TRUE(matches_device(profile("hopper")));
  EXPECT_TRUE(matches_device(profile("hopper-te"), 0));
  EXPECT_FALSE(matches_device(profile("hopper"), 1));
  EXPECT_TRUE(matches_device(profile("ada"), 1));
  EXPECT_FALSE(matches_device(profile("ada")));
  cuda_.current = 1;
  EXPECT_TRUE(matches_device(profile("ada")));
  EXPECT_FALSE(matches_device(profile("hopper-experimental")));

  for (const int part : {0, 1, 2}) {
    ++lt_.version[part];
    EXPECT_FALSE(matches_device(profile("ada"))) << part;
    --lt_.version[part];
  }
  --cuda_.devices[1].multiprocessors;
  EXPECT_FALSE(matches_device(profile("ada")));
}

TEST_F(LiveQueries, NoDeviceMatchesOnAProbeError) {
  EXPECT_FALSE(matches_device(profile(), 2));
  EXPECT_FALSE(matches_device(profile(), -1));
  cuda_.name_fails = true;
  EXPECT_FALSE(matches_device(profile()));
  cuda_ = FakeDriver{};
  EXPECT_FALSE(matches_device(profile()));
  EXPECT_FALSE(matches_device(find_profile("hopper-experimental").value()));
}

TEST_F(LiveQueries, UnreadableVersionOfAProfileMatchesNothing) {
  Profile p = profile();
  for (const char* version : {"", "12", "12.8", "12.8.x", "12..8", "12.8.3.", "99999999999.8.3"}) {
    p.cublaslt_version = version;
    EXPECT_FALSE(matches_device(p)) << version;
  }
}

}  // namespace
}  // namespace mmaemu
