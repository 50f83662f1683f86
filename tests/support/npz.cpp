// The .npz reader: libzip for the archive, the .npy header (versions 1 to 3) by hand.
#include "npz.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>
#include <zip.h>

namespace mmaemu::testing {

namespace {

constexpr std::string_view kSuffix = ".npy";

[[noreturn]] void fail(const std::string& where, const std::string& why) {
  throw std::runtime_error(where + ": " + why);
}

// The text between the quotes, brackets or commas after `key` in a .npy header such as
// {'descr': '<u4', 'fortran_order': False, 'shape': (3, 4), }
std::string_view field(const std::string& where, std::string_view header, std::string_view key,
                       std::string_view open, char close) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) fail(where, "the .npy header has no " + std::string(key));
  const std::size_t first = header.find(open, at + key.size());
  const std::size_t begin = first + open.size();
  const std::size_t end = first == std::string_view::npos ? first : header.find(close, begin);
  if (end == std::string_view::npos) fail(where, "the .npy header has no value for " + std::string(key));
  return header.substr(begin, end - begin);
}

std::vector<std::int64_t> parse_shape(const std::string& where, std::string_view text) {
  std::vector<std::int64_t> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    std::int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc{} || extent < 0)
      fail(where, "the .npy header has an unreadable shape (" + std::string(text) + ")");
    shape.push_back(extent);
    at = next;
  }
  return shape;
}

// Little-endian or single-byte items only: "<u4", "|u1".
std::size_t item_size(const std::string& where, std::string_view dtype) {
  std::size_t size = 0;
  const bool shaped = dtype.size() >= 3 && (dtype[0] == '<' || dtype[0] == '|') &&
                      std::string_view("buif").find(dtype[1]) != std::string_view::npos;
  if (shaped) std::from_chars(dtype.data() + 2, dtype.data() + dtype.size(), size);
  if (size == 0 || size > 8) fail(where, "dtype " + std::string(dtype) + " is not supported");
  return size;
}

NpzArray parse(const std::string& where, std::string name, const std::vector<std::byte>& file) {
  constexpr std::array<unsigned char, 6> kMagic{0x93, 'N', 'U', 'M', 'P', 'Y'};
  if (file.size() < 10 || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0)
    fail(where, "is not a .npy file");
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(file[i]); };
  const bool short_header = byte(6) == 1;
  if (byte(6) < 1 || byte(6) > 3 || (!short_header && file.size() < 12))
    fail(where, "is a .npy file of an unknown version");
  const std::size_t start = short_header ? 10 : 12;
  const std::size_t length = byte(8) | byte(9) << 8 | (short_header ? 0 : byte(10) << 16 | byte(11) << 24);
  if (length > file.size() - start) fail(where, "the .npy header is cut short");
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + start, length);

  NpzArray array;
  array.name = std::move(name);
  array.dtype = field(where, header, "'descr'", "'", '\'');
  array.shape = parse_shape(where, field(where, header, "'shape'", "(", ')'));
  const std::string_view fortran = field(where, header, "'fortran_order'", ":", ',');
  const bool one_dimensional = array.shape.size() <= 1;
  if (fortran.find("False") == std::string_view::npos && !one_dimensional)
    fail(where, "is stored in Fortran order, which is not supported");
  array.bytes.assign(file.begin() + static_cast<std::ptrdiff_t>(start + length), file.end());
  const std::size_t want = static_cast<std::size_t>(array.size()) * item_size(where, array.dtype);
  if (array.bytes.size() != want)
    fail(where, "holds " + std::to_string(array.bytes.size()) + " bytes where its shape and dtype need " +
                    std::to_string(want));
  return array;
}

}  // namespace

std::int64_t NpzArray::size() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

void NpzArray::require(char kind, std::size_t item_size) const {
  static_assert(std::endian::native == std::endian::little);
  const bool kind_fits = dtype[1] == kind || (dtype[1] == 'b' && kind == 'u');
  if (!kind_fits || dtype.substr(2) != std::to_string(item_size))
    throw std::runtime_error("array " + name + " has dtype " + dtype + ", read as " + kind +
                             std::to_string(item_size));
}

struct Npz::Archive {
  explicit Archive(zip_t* zip) : handle(zip) {}
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;
  ~Archive() { zip_discard(handle); }
  zip_t* handle;
};

Npz::Npz(std::filesystem::path path, std::shared_ptr<Archive> archive)
    : path_(std::move(path)), archive_(std::move(archive)) {
  const zip_int64_t entries = zip_get_num_entries(archive_->handle, 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    const char* entry = zip_get_name(archive_->handle, static_cast<zip_uint64_t>(i), 0);
    std::string_view name = entry == nullptr ? "" : entry;
    if (name.ends_with(kSuffix)) names_.emplace_back(name.substr(0, name.size() - kSuffix.size()));
  }
}

Npz Npz::open(const std::filesystem::path& path) {
  int code = 0;
  zip_t* const zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (zip == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string why = zip_error_strerror(&error);
    zip_error_fini(&error);
    fail(path.string(), why);
  }
  return Npz(path, std::make_shared<Archive>(zip));
}

bool Npz::contains(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

const NpzArray& Npz::array(std::string_view name) {
  if (const auto known = arrays_.find(name); known != arrays_.end()) return known->second;
  const std::string where = path_.string() + "[" + std::string(name) + "]";
  const std::string entry = std::string(name) + std::string(kSuffix);
  zip_stat_t stat;
  if (zip_stat(archive_->handle, entry.c_str(), 0, &stat) != 0) fail(where, "the archive has no such array");
  std::vector<std::byte> file(static_cast<std::size_t>(stat.size));
  zip_file_t* const stream = zip_fopen(archive_->handle, entry.c_str(), 0);
  if (stream == nullptr) fail(where, zip_strerror(archive_->handle));
  const zip_int64_t got = zip_fread(stream, file.data(), file.size());
  zip_fclose(stream);
  if (got != static_cast<zip_int64_t>(file.size())) fail(where, "the archive is damaged");
  return arrays_.emplace(std::string(name), parse(where, std::string(name), file)).first->second;
}

}  // namespace mmaemu::testing
