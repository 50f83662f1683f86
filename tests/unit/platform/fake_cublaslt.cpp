// A cuBLASLt without kernels: it keeps the description of the product it was asked about and returns the
// algorithm it was told to. Numbers are those of cublasLt.h.
#include <cstring>
#include <memory>

#include "fake_cuda.h"

namespace {

using mmaemu::testing::Attributes;
using mmaemu::testing::FakeCublasLt;
using mmaemu::testing::FakeLayout;

FakeCublasLt state;

struct Description {
  int compute_type;
  int scale_type;
  Attributes attributes;
};

struct Algo {
  std::uint64_t data[8];
};

struct HeuristicResult {
  Algo algo;
  std::size_t workspace_size;
  int state;
  float waves;
  int reserved[4];
};

constexpr std::uint64_t kAlgoMark = 0x5A5A;

int status_of(const char* function) {
  return state.failing == function ? state.failure : 0;
}

template <class T>
int create(const char* function, void** object, T value) {
  if (const int status = status_of(function); status != 0) return status;
  *object = new T(std::move(value));
  ++state.open;
  return 0;
}

template <class T>
int destroy(void* object) {
  delete static_cast<T*>(object);
  --state.open;
  return 0;
}

int set(const char* function, Attributes& attributes, int attribute, const void* value, std::size_t size) {
  if (const int status = status_of(function); status != 0) return status;
  const auto* bytes = static_cast<const unsigned char*>(value);
  attributes[attribute].assign(bytes, bytes + size);
  return 0;
}

}  // namespace

extern "C" {

FakeCublasLt* fake_cublaslt() {
  return &state;
}

int cublasLtCreate(void** handle) {
  return create("cublasLtCreate", handle, 0);
}
int cublasLtDestroy(void* handle) {
  return destroy<int>(handle);
}

int cublasLtGetProperty(int part, int* value) {
  *value = state.version[part];
  return status_of("cublasLtGetProperty");
}

int cublasLtMatmulDescCreate(void** description, int compute_type, int scale_type) {
  return create("cublasLtMatmulDescCreate", description, Description{compute_type, scale_type, {}});
}
int cublasLtMatmulDescDestroy(void* description) {
  return destroy<Description>(description);
}
int cublasLtMatmulDescSetAttribute(void* description, int attribute, const void* value, std::size_t size) {
  return set("cublasLtMatmulDescSetAttribute", static_cast<Description*>(description)->attributes, attribute,
             value, size);
}

int cublasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t leading) {
  return create("cublasLtMatrixLayoutCreate", layout, FakeLayout{type, rows, columns, leading});
}
int cublasLtMatrixLayoutDestroy(void* layout) {
  return destroy<FakeLayout>(layout);
}

int cublasLtMatmulPreferenceCreate(void** preference) {
  return create("cublasLtMatmulPreferenceCreate", preference, Attributes{});
}
int cublasLtMatmulPreferenceDestroy(void* preference) {
  return destroy<Attributes>(preference);
}
int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value,
                                         std::size_t size) {
  return set("cublasLtMatmulPreferenceSetAttribute", *static_cast<Attributes*>(preference), attribute, value,
             size);
}

#ifndef FAKE_WITHOUT_HEURISTIC
int cublasLtMatmulAlgoGetHeuristic(void*, void* description, void* a, void* b, void* c, void* d,
                                   void* preference, int requested, void* results, int* returned) {
  ++state.queries;
  const auto& described = *static_cast<Description*>(description);
  state.compute_type = described.compute_type;
  state.scale_type = described.scale_type;
  state.description = described.attributes;
  state.preference = *static_cast<Attributes*>(preference);
  state.a = *static_cast<FakeLayout*>(a);
  state.b = *static_cast<FakeLayout*>(b);
  state.c = *static_cast<FakeLayout*>(c);
  state.d = *static_cast<FakeLayout*>(d);
  state.requested = requested;
  *returned = state.returned;
  if (state.returned > 0) {
    auto& first = *static_cast<HeuristicResult*>(results);
    first.algo.data[0] = kAlgoMark;
    first.state = state.state;
  }
  return status_of("cublasLtMatmulAlgoGetHeuristic");
}
#endif

int cublasLtMatmulAlgoConfigGetAttribute(const void* algo, int attribute, void* value, std::size_t size,
                                         std::size_t* written) {
  if (const int status = status_of("cublasLtMatmulAlgoConfigGetAttribute"); status != 0) return status;
  if (static_cast<const Algo*>(algo)->data[0] != kAlgoMark || size != sizeof(std::int32_t)) return 7;
  std::memcpy(value, &state.config[attribute], size);
  *written = size;
  return 0;
}
}
