// Files through the standard library and POSIX; nothing here knows what is in them.
#include "platform/files.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/environment.h"

namespace mmaemu {
namespace {

// A file descriptor that is closed.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }
  // Whether the system has accepted everything that was written.
  bool close() {
    const int number = number_;
    number_ = -1;
    return ::close(number) == 0;
  }

 private:
  int number_;
};

Error failed(const std::string& path) {
  return {ErrorKind::mmaemu_error, "cannot write " + path + ": " + std::strerror(errno)};
}

bool write_all(int file, std::span<const std::byte> contents) {
  while (!contents.empty()) {
    const ssize_t written = ::write(file, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    contents = contents.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::optional<Bytes> read_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  Bytes contents(static_cast<std::size_t>(status.st_size));
  std::size_t have = 0;
  while (have < contents.size()) {
    const ssize_t got = ::read(file.get(), contents.data() + have, contents.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    have += static_cast<std::size_t>(got);
  }
  return contents;
}

Status write_file(const std::string& path, std::span<const std::byte> contents) {
  std::error_code ignored;  // where the folder cannot be made, opening the file says so
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::string temporary = path + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return failed(path);
  if (write_all(file.get(), contents) && file.close() && ::rename(temporary.c_str(), path.c_str()) == 0)
    return {};
  const Error error = failed(path);
  ::unlink(temporary.c_str());
  return error;
}

std::string cache_folder() {
  for (const auto& [variable, below] :
       {std::pair{"MMAEMU_CACHE_DIR", ""}, {"XDG_CACHE_HOME", "/mmaemu"}, {"HOME", "/.cache/mmaemu"}}) {
    const std::string folder = environment_text(variable);
    if (!folder.empty()) return folder + below;
  }
  return {};
}

std::string file_of(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::string() : file.string();
}

std::string library_folder() {
  const std::string library = file_of(reinterpret_cast<const void*>(&library_folder));
  return std::filesystem::path(library).parent_path().string();
}

}  // namespace mmaemu
