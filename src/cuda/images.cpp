// The manifest is written by the build that compiles the fatbins (cmake/, docs/performance.md); the cache
// entries are this file's own: the key, a hash, and the bytes.
#include "cuda/images.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/sha256.h"
#include "platform/environment.h"

namespace mmaemu::cuda {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSeal = "sha256 ";
constexpr std::string_view kProgram = "kernels.cu";
// No contraction: which operations are fused is the source's matter.
const std::array<std::string, 2> kOptions{"--fmad=false", "--std=c++17"};

Error unavailable(std::string message) {
  return {ErrorKind::backend_unavailable, std::move(message)};
}

Image image_of(Bytes bytes) {
  Image image{std::move(bytes), {}};
  image.sha256 = sha256(image.bytes);
  image.bytes.push_back(std::byte{0});  // PTX is a C string to the driver
  return image;
}

// A text of a JSON object; empty where it has none of that name.
std::string text_field(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// What the manifest says of a kernel's fatbin.
struct Entry {
  std::string file;
  std::string sha256;
};

Result<Entry> manifest_entry(const Kernel& kernel, const std::string& path) {
  const std::optional<Bytes> contents = read_file(path);
  if (!contents) return unavailable("no manifest of prebuilt kernels at " + path);
  const Json manifest = Json::parse(text_of(*contents), nullptr, false);
  if (!manifest.is_object()) return unavailable("the manifest " + path + " is damaged");
  if (text_field(manifest, "source_sha256") != source_hash())
    return unavailable("the prebuilt kernels of " + path +
                       " were built from other sources than this library's");
  const auto images = manifest.find("images");
  if (images != manifest.end() && images->is_array()) {
    for (const Json& image : *images) {
      if (text_field(image, "kernel") != kernel.name) continue;
      Entry entry{text_field(image, "file"), text_field(image, "sha256")};
      // A name alone: a manifest does not lead to other folders.
      if (!entry.file.empty() && entry.file.find('/') == std::string::npos) return entry;
    }
  }
  return unavailable("the manifest " + path + " names no binary of " + std::string(kernel.name));
}

// How a device's architecture is compiled for: its own where NVRTC knows it, else PTX of the kernel's least.
Result<std::string> target_of(const Kernel& kernel, const DeviceInfo& device, const Nvrtc& nvrtc) {
  if (std::ranges::find(nvrtc.architectures(), device.architecture()) != nvrtc.architectures().end())
    return "sm_" + std::to_string(device.architecture());
  if (!kernel.ptx.empty()) return std::string(kernel.ptx);
  return unavailable("NVRTC " + nvrtc.path() + " does not know sm_" + std::to_string(device.architecture()));
}

std::string cached_path(const std::string& key) {
  const std::string folder = cache_folder();
  return folder.empty() ? folder : folder + "/cubins/" + sha256(bytes_of(key)) + ".bin";
}

std::optional<Image> cached_image(const std::string& path, const std::string& key) {
  if (path.empty()) return std::nullopt;
  std::optional<Bytes> contents = read_file(path);
  if (!contents) return std::nullopt;
  const std::size_t head = key.size() + kSeal.size() + 64 + 1;
  if (contents->size() <= head || !text_of(*contents).starts_with(key)) return std::nullopt;
  Image image = image_of(Bytes(contents->begin() + static_cast<std::ptrdiff_t>(head), contents->end()));
  const std::string seal = std::string(kSeal) + image.sha256 + "\n";
  if (text_of(*contents).substr(key.size(), seal.size()) != seal) return std::nullopt;
  return image;
}

}  // namespace

std::string fatbin_folder() {
  if (std::string folder = environment_text("MMAEMU_FATBIN_DIR"); !folder.empty()) return folder;
  const std::string library = library_folder();
  if (library.empty()) return {};
  // Beside the Python extension; beside the lib folder of an installed prefix.
  for (const char* below : {"/cuda", "/../share/mmaemu/cuda"}) {
    std::error_code none;
    if (std::filesystem::exists(library + below + "/manifest.json", none)) return library + below;
  }
  return {};
}

Result<Image> prebuilt_image(const Kernel& kernel) {
  const std::string folder = fatbin_folder();
  if (folder.empty()) return unavailable("this build has no prebuilt kernels");
  const Result<Entry> entry = manifest_entry(kernel, folder + "/manifest.json");
  if (!entry.ok()) return entry.error();
  const std::string path = folder + "/" + entry.value().file;
  std::optional<Bytes> bytes = read_file(path);
  if (!bytes) return unavailable("cannot read the prebuilt kernel " + path);
  Image image = image_of(*std::move(bytes));
  if (image.sha256 != entry.value().sha256)
    return unavailable("the prebuilt kernel " + path +
                       " is not the one of its manifest: its SHA-256 differs");
  return image;
}

Result<Image> compiled_image(const Kernel& kernel, const DeviceInfo& device) {
  const Result<Nvrtc> nvrtc = Nvrtc::load(device.driver / 1000);
  if (!nvrtc.ok()) return nvrtc.error();
  const Result<std::string> target = target_of(kernel, device, nvrtc.value());
  if (!target.ok()) return target.error();
  std::string key = "mmaemu cubin 1\nsources " + source_hash() + "\ntarget " + target.value() + "\nnvrtc " +
                    std::to_string(nvrtc.value().version()) + "\n";
  for (const std::string& option : kOptions) key += "option " + option + "\n";
  const std::string path = cached_path(key);
  if (std::optional<Image> cached = cached_image(path, key)) return *std::move(cached);
  Result<Bytes> bytes = nvrtc.value().compile(kProgram, kernel_sources(), target.value(), kOptions);
  if (!bytes.ok()) return bytes.error();
  Image image = image_of(std::move(bytes).value());
  if (!path.empty()) {
    const std::string head = key + std::string(kSeal) + image.sha256 + "\n";
    Bytes contents(image.bytes.begin(), image.bytes.end() - 1);
    const std::span<const std::byte> head_bytes = bytes_of(head);
    contents.insert(contents.begin(), head_bytes.begin(), head_bytes.end());
    // A folder that cannot be written costs the next process the compilation; nothing is wrong.
    static_cast<void>(write_file(path, contents).ok());
  }
  return image;
}

}  // namespace mmaemu::cuda
