// An NVRTC that compiles nothing: what fails in it, and how, is what tests ask for. Its result is no binary.
#include <cstddef>
#include <cstring>
#include <map>
#include <string>

namespace {

std::map<std::string, int> failures;
constexpr char kLog[] = "portable.cu(7): error: no such thing";
constexpr char kResult[] = "fake";

int status(const char* function) {
  const auto failure = failures.find(function);
  return failure == failures.end() ? 0 : failure->second;
}

int give_size(const char* function, const char* text, std::size_t* size) {
  *size = std::strlen(text) + 1;
  return status(function);
}

int give(const char* function, const char* text, char* to) {
  std::strcpy(to, text);
  return status(function);
}

}  // namespace

extern "C" {

void fake_nvrtc_fail(const char* function, int with) {
  failures = {{function, with}};
}

int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 8;
  return status("nvrtcVersion");
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return status("nvrtcGetNumSupportedArchs");
}
int nvrtcGetSupportedArchs(int* architectures) {
  *architectures = 89;
  return status("nvrtcGetSupportedArchs");
}
int nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*,
                       const char* const*) {
  static char any;
  *program = &any;
  return status("nvrtcCreateProgram");
}
int nvrtcDestroyProgram(void** program) {
  *program = nullptr;
  return 0;
}
int nvrtcCompileProgram(void*, int, const char* const*) {
  return status("nvrtcCompileProgram");
}
int nvrtcGetPTXSize(void*, std::size_t* size) {
  return give_size("nvrtcGetPTXSize", kResult, size);
}
int nvrtcGetPTX(void*, char* ptx) {
  return give("nvrtcGetPTX", kResult, ptx);
}
int nvrtcGetCUBINSize(void*, std::size_t* size) {
  return give_size("nvrtcGetCUBINSize", kResult, size);
}
int nvrtcGetCUBIN(void*, char* cubin) {
  return give("nvrtcGetCUBIN", kResult, cubin);
}
int nvrtcGetProgramLogSize(void*, std::size_t* size) {
  return give_size("nvrtcGetProgramLogSize", kLog, size);
}
int nvrtcGetProgramLog(void*, char* log) {
  return give("nvrtcGetProgramLog", kLog, log);
}
const char* nvrtcGetErrorString(int error) {
  return error == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INTERNAL_ERROR";
}
}
