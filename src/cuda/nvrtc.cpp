// Types and constants are the C ABI of nvrtc.h, declared here so that building does not need it.
#include "cuda/nvrtc.h"

#include <algorithm>
#include <dlfcn.h>

#include "platform/environment.h"

namespace mmaemu::cuda {

using NvrtcStatus = int;  // nvrtcResult, 0: success
using NvrtcProgram = void*;

struct NvrtcFunctions {
  NvrtcStatus (*version)(int*, int*) = nullptr;
  NvrtcStatus (*architecture_count)(int*) = nullptr;
  NvrtcStatus (*architectures)(int*) = nullptr;
  NvrtcStatus (*create)(NvrtcProgram*, const char*, const char*, int, const char* const*,
                        const char* const*) = nullptr;
  NvrtcStatus (*destroy)(NvrtcProgram*) = nullptr;
  NvrtcStatus (*compile)(NvrtcProgram, int, const char* const*) = nullptr;
  NvrtcStatus (*ptx_size)(NvrtcProgram, std::size_t*) = nullptr;
  NvrtcStatus (*ptx)(NvrtcProgram, char*) = nullptr;
  NvrtcStatus (*cubin_size)(NvrtcProgram, std::size_t*) = nullptr;
  NvrtcStatus (*cubin)(NvrtcProgram, char*) = nullptr;
  NvrtcStatus (*log_size)(NvrtcProgram, std::size_t*) = nullptr;
  NvrtcStatus (*log)(NvrtcProgram, char*) = nullptr;
  const char* (*error_text)(NvrtcStatus) = nullptr;
};

namespace {

Error unavailable(std::string message) {
  return {ErrorKind::backend_unavailable, std::move(message)};
}

// The functions of a library; the missing one's name where one is missing.
std::string find_functions(void* library, NvrtcFunctions& f) {
  std::string missing;
  const auto find = [&]<class Function>(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = name;
  };
  find("nvrtcVersion", f.version);
  find("nvrtcGetNumSupportedArchs", f.architecture_count);
  find("nvrtcGetSupportedArchs", f.architectures);
  find("nvrtcCreateProgram", f.create);
  find("nvrtcDestroyProgram", f.destroy);
  find("nvrtcCompileProgram", f.compile);
  find("nvrtcGetPTXSize", f.ptx_size);
  find("nvrtcGetPTX", f.ptx);
  find("nvrtcGetCUBINSize", f.cubin_size);
  find("nvrtcGetCUBIN", f.cubin);
  find("nvrtcGetProgramLogSize", f.log_size);
  find("nvrtcGetProgramLog", f.log);
  find("nvrtcGetErrorString", f.error_text);
  return missing;
}

struct Candidate {
  std::string path;
  int flags;
};

std::vector<Candidate> candidates(int driver_major) {
  if (std::string path = environment_text("MMAEMU_NVRTC_PATH"); !path.empty()) return {{std::move(path), 0}};
  const std::vector<int> majors = driver_major == 12 ? std::vector{12, 13} : std::vector{13, 12};
  std::vector<Candidate> all;
  const auto library = [](int major) { return "libnvrtc.so." + std::to_string(major); };
  for (const int major : majors) all.push_back({library(major), RTLD_NOLOAD});
  for (const int major : majors) {
    if (const std::string folder = library_folder(); !folder.empty()) {
      const std::string package = major == 12 ? "cuda_nvrtc" : "cu" + std::to_string(major);
      all.push_back({folder + "/../nvidia/" + package + "/lib/" + library(major), 0});
    }
    all.push_back({library(major), 0});
  }
  return all;
}

// A program that is destroyed.
class Program {
 public:
  explicit Program(const NvrtcFunctions& functions) : f_(functions) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (program_ != nullptr) f_.destroy(&program_);
  }
  NvrtcProgram* slot() { return &program_; }
  NvrtcProgram get() const { return program_; }

 private:
  const NvrtcFunctions& f_;
  NvrtcProgram program_ = nullptr;
};

std::string log_of(const NvrtcFunctions& f, NvrtcProgram program) {
  std::size_t size = 0;
  if (f.log_size(program, &size) != 0 || size == 0) return {};
  std::string log(size, '\0');
  if (f.log(program, log.data()) != 0) return {};
  log.resize(size - 1);  // the terminating zero
  return log;
}

}  // namespace

Result<Nvrtc> Nvrtc::load(int driver_major) {
  std::string tried;
  for (const Candidate& candidate : candidates(driver_major)) {
    void* library = dlopen(candidate.path.c_str(), RTLD_NOW | RTLD_LOCAL | candidate.flags);
    if (library == nullptr && candidate.flags != 0) continue;
    Nvrtc nvrtc;
    nvrtc.path_ = candidate.path;
    const std::string problem = library == nullptr ? "cannot be opened" : nvrtc.bind(library);
    if (problem.empty()) return nvrtc;
    tried += (tried.empty() ? "" : "; ") + candidate.path + " " + problem;
  }
  return unavailable("no NVRTC found (" + tried +
                     "); pip install nvidia-cuda-nvrtc, or set MMAEMU_NVRTC_PATH");
}

std::string Nvrtc::bind(void* library) {
  auto functions = std::make_shared<NvrtcFunctions>();
  if (const std::string missing = find_functions(library, *functions); !missing.empty())
    return "is too old or not NVRTC: it has no " + missing;
  int major = 0;
  int minor = 0;
  int count = 0;
  NvrtcStatus status = functions->version(&major, &minor);
  if (status == 0) status = functions->architecture_count(&count);
  if (status == 0 && count > 0) {
    architectures_.resize(static_cast<std::size_t>(count));
    status = functions->architectures(architectures_.data());
  }
  if (status != 0) return "fails: " + std::string(functions->error_text(status));
  std::ranges::sort(architectures_);
  version_ = major * 1000 + minor * 10;
  functions_ = std::move(functions);
  return {};
}

Result<Bytes> Nvrtc::compile(std::string_view file, std::span<const SourceFile> files,
                             const std::string& architecture, std::span<const std::string> options) const {
  const NvrtcFunctions& f = *functions_;
  const auto failure = [&](NvrtcStatus status, const std::string& log) {
    return unavailable("NVRTC cannot compile " + std::string(file) + " for " + architecture + ": " +
                       f.error_text(status) + (log.empty() ? "" : "\n" + log));
  };
  std::string text;
  std::vector<std::string> names;
  std::vector<std::string> texts;
  for (const SourceFile& s : files) {
    if (s.name == file) text = s.text;
    names.emplace_back(s.name);
    texts.emplace_back(s.text);
  }
  const auto pointers = [](const std::vector<std::string>& strings) {
    std::vector<const char*> all;
    for (const std::string& s : strings) all.push_back(s.c_str());
    return all;
  };
  Program program(f);
  NvrtcStatus status =
      f.create(program.slot(), text.c_str(), std::string(file).c_str(), static_cast<int>(files.size()),
               pointers(texts).data(), pointers(names).data());
  if (status != 0) return failure(status, "");
  std::vector<std::string> all(options.begin(), options.end());
  all.push_back("--gpu-architecture=" + architecture);
  const std::vector<const char*> arguments = pointers(all);
  status = f.compile(program.get(), static_cast<int>(arguments.size()), arguments.data());
  if (status != 0) return failure(status, log_of(f, program.get()));
  const bool binary = architecture.starts_with("sm_");
  std::size_t size = 0;
  status = (binary ? f.cubin_size : f.ptx_size)(program.get(), &size);
  Bytes result(size);
  if (status == 0) status = (binary ? f.cubin : f.ptx)(program.get(), reinterpret_cast<char*>(result.data()));
  if (status != 0) return failure(status, "");
  return result;
}

}  // namespace mmaemu::cuda
