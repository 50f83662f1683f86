#include "files.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace mmaemu::command {
namespace {

static_assert(std::endian::native == std::endian::little, "both kinds of files hold little-endian numbers");

constexpr std::size_t kLargestHeader = 100'000'000;  // as the safetensors library has it

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw FileError(path + ": " + what);
}

[[noreturn]] void fail_at(const std::string& path, std::size_t offset, const std::string& what) {
  fail(path, "at byte " + std::to_string(offset) + ": " + what);
}

constexpr std::string_view kNpyMagic = "\x93NUMPY";

bool is_safetensors(const std::string& path) {
  return path.ends_with(".safetensors");
}

// Of other kinds of files, which may have no end, the first bytes alone are read.
std::string read_file(const std::string& path) {
  std::error_code problem;
  if (std::filesystem::is_directory(path, problem)) fail(path, "is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, std::strerror(errno));
  std::string bytes;
  for (std::size_t step = 256; file; step = std::min(2 * step, std::size_t{1} << 24)) {
    const std::size_t size = bytes.size();
    bytes.resize(size + step);
    file.read(bytes.data() + size, static_cast<std::streamsize>(step));
    bytes.resize(size + static_cast<std::size_t>(file.gcount()));
    if (size == 0 && !bytes.starts_with(kNpyMagic) && !is_safetensors(path))
      fail_at(path, 0, "neither a .npy file nor named .safetensors");
  }
  if (file.bad()) fail_at(path, bytes.size(), "cannot be read");
  return bytes;
}

// rows * columns * bytes; none where it overflows.
std::optional<std::size_t> byte_count(std::int64_t rows, std::int64_t columns, int bytes) {
  std::int64_t elements = 0;
  std::int64_t total = 0;
  if (__builtin_mul_overflow(rows, columns, &elements) || __builtin_mul_overflow(elements, bytes, &total))
    return std::nullopt;
  return static_cast<std::size_t>(total);
}

// Up to two dimensions as rows and columns.
void set_shape(Matrix& matrix, const std::vector<std::int64_t>& shape, const std::string& path,
               std::size_t offset) {
  if (shape.size() > 2)
    fail_at(path, offset, "the array has " + std::to_string(shape.size()) + " dimensions, not 2");
  for (const std::int64_t size : shape)
    if (size < 0) fail_at(path, offset, "a dimension of " + std::to_string(size));
  matrix.columns = shape.empty() ? 1 : shape.back();
  matrix.rows = shape.size() == 2 ? shape.front() : 1;
}

// What unsigned integers of a width are codes of.
FormatId format_of_codes(const std::string& path, std::size_t offset, int bits,
                         std::optional<FormatId> codes_as) {
  if (!codes_as)
    fail_at(path, offset,
            "the array holds unsigned integers of " + std::to_string(bits) +
                " bits; say what they are codes of (--format, --a-format, --b-format)");
  if (format(*codes_as).bits != bits)
    fail_at(path, offset,
            "the array holds integers of " + std::to_string(bits) + " bits, but " +
                std::string(format(*codes_as).name) + " has " + std::to_string(format(*codes_as).bits));
  return *codes_as;
}

// The header of a .npy file: a Python dict of strings, booleans and tuples of integers.
class NpyHeader {
 public:
  NpyHeader(const std::string& path, const std::string& bytes, std::size_t begin, std::size_t end)
      : path_(path), bytes_(bytes), at_(begin), end_(end) {
    expect('{');
    while (!accept('}')) {
      const std::size_t key_at = at_;
      const std::string key = string();
      expect(':');
      if (std::ranges::find(keys_, key) != keys_.end())
        fail_at(path_, key_at, "key \"" + key + "\" is there twice");
      if (key == "descr") {
        skip();
        descr_at = at_;
        descr = string();
      } else if (key == "fortran_order") {
        fortran_order = boolean();
      } else if (key == "shape") {
        shape = tuple();
      } else {
        fail_at(path_, key_at, "unknown key \"" + key + "\" in the header");
      }
      keys_.push_back(key);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (at_ != end_) fail_at(path_, at_, "text after the header's dict");
    if (keys_.size() != 3) fail_at(path_, begin, "the header needs descr, fortran_order and shape");
  }

  std::string descr;
  std::size_t descr_at = 0;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;

 private:
  void skip() {
    while (at_ < end_ && (bytes_[at_] == ' ' || bytes_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ >= end_ || bytes_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail_at(path_, at_, std::string("the header has no '") + c + "' here");
  }
  std::string string() {
    skip();
    const char quote = at_ < end_ ? bytes_[at_] : '\0';
    const std::size_t close = quote == '\'' || quote == '"' ? bytes_.find(quote, at_ + 1) : std::string::npos;
    if (close == std::string::npos || close >= end_) fail_at(path_, at_, "the header has no string here");
    std::string text = bytes_.substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
    return text;
  }
  bool boolean() {
    skip();
    for (const std::string_view word : {"True", "False"}) {
      if (bytes_.compare(at_, word.size(), word) != 0 || at_ + word.size() > end_) continue;
      at_ += word.size();
      return word == "True";
    }
    fail_at(path_, at_, "the header has neither True nor False here");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> sizes;
    expect('(');
    while (!accept(')')) {
      skip();
      std::int64_t size = 0;
      const auto [next, problem] = std::from_chars(bytes_.data() + at_, bytes_.data() + end_, size);
      if (problem != std::errc{}) fail_at(path_, at_, "the header has no 64-bit integer here");
      at_ = static_cast<std::size_t>(next - bytes_.data());
      sizes.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  const std::string& path_;
  const std::string& bytes_;
  std::size_t at_;
  std::size_t end_;
  std::vector<std::string> keys_;
};

Matrix read_npy(const std::string& path, const std::string& bytes, std::optional<FormatId> codes_as) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<std::uint8_t>(bytes[i]));
  };
  const bool wide = bytes.size() > 6 && bytes[6] != 1;
  const std::size_t begin = wide ? 12 : 10;
  if (bytes.size() < begin) fail_at(path, bytes.size(), "the file ends in the first bytes of a .npy file");
  if (byte(6) < 1 || byte(6) > 3)
    fail_at(path, 6, "version " + std::to_string(byte(6)) + " of .npy is not known");
  std::size_t length = byte(8) | byte(9) << 8;
  if (wide) length |= byte(10) << 16 | byte(11) << 24;
  if (length > bytes.size() - begin)
    fail_at(path, 8, "a header of " + std::to_string(length) + " bytes goes beyond the end of the file");
  const NpyHeader header(path, bytes, begin, begin + length);
  if (header.fortran_order)
    fail_at(path, begin, "the array is column-major (fortran_order); save numpy.ascontiguousarray of it");
  if (header.descr.starts_with('>')) fail_at(path, header.descr_at, "big-endian numbers are not read");

  // What numpy makes of ml_dtypes' types: <V1 of float8_e4m3fn, <f1 of float8_e5m2, <V2 of bfloat16.
  constexpr std::array<std::string_view, 5> kBytes{"|u1", "<u1", "|V1", "<V1", "<f1"};
  Matrix matrix;
  if (header.descr == "<f4")
    matrix.format = FormatId::float32;
  else if (header.descr == "<f2")
    matrix.format = FormatId::float16;
  else if (std::ranges::find(kBytes, header.descr) != kBytes.end())
    matrix.format = format_of_codes(path, header.descr_at, 8, codes_as);
  else if (header.descr == "<u2" || header.descr == "<V2")
    matrix.format = format_of_codes(path, header.descr_at, 16, codes_as);
  else if (header.descr == "<u4")
    matrix.format = format_of_codes(path, header.descr_at, 32, codes_as);
  else
    fail_at(
        path, header.descr_at,
        "an array of \"" + header.descr + "\"; uint8 codes, uint16, float16, uint32 and float32 are read");
  set_shape(matrix, header.shape, path, begin);
  const std::size_t data = begin + length;
  const std::optional<std::size_t> size =
      byte_count(matrix.rows, matrix.columns, format(matrix.format).bytes());
  if (!size || *size > bytes.size() - data)
    fail_at(path, data,
            "the file ends before the " + std::to_string(matrix.rows) + " x " +
                std::to_string(matrix.columns) + " array that its header announces");
  if (*size < bytes.size() - data)
    fail_at(path, data + *size, std::to_string(bytes.size() - data - *size) + " bytes after the array");
  matrix.bytes.assign(bytes.begin() + static_cast<std::ptrdiff_t>(data), bytes.end());
  return matrix;
}

FormatId safetensors_format(const std::string& path, const std::string& name, const std::string& dtype,
                            std::optional<FormatId> codes_as) {
  if (dtype == "F8_E4M3") return FormatId::e4m3;
  if (dtype == "F8_E5M2") return FormatId::e5m2;
  if (dtype == "F32") return FormatId::float32;
  if (dtype == "F16") return FormatId::float16;
  if (dtype == "BF16") return FormatId::bfloat16;
  if (dtype == "U8") return format_of_codes(path, 8, 8, codes_as);
  fail_at(path, 8,
          "tensor \"" + name + "\" is " + dtype + "; F8_E4M3, F8_E5M2, F16, BF16, F32 and U8 are read");
}

// Where a tensor lies in the data.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string name;
};

Extent extent_of(const std::string& path, const std::string& name, const nlohmann::json& tensor) {
  const auto offset = [&](std::size_t i) -> std::uint64_t {
    const nlohmann::json& value = tensor.at("data_offsets").at(i);
    if (!value.is_number_unsigned())
      fail_at(path, 8, "data_offsets of tensor \"" + name + "\" are not two sizes");
    return value.get<std::uint64_t>();
  };
  try {
    if (tensor.at("data_offsets").size() == 2) return {offset(0), offset(1), name};
  } catch (const nlohmann::json::exception&) {
    fail_at(path, 8, "tensor \"" + name + "\" has no data_offsets");
  }
  fail_at(path, 8, "data_offsets of tensor \"" + name + "\" are not two sizes");
}

// As the safetensors library, so that no file is read in two ways: the tensors fill the data one after
// another, without gaps, overlaps and bytes that belong to none.
void check_layout(const std::string& path, const nlohmann::json& header, std::size_t data, std::size_t size) {
  std::vector<Extent> extents;
  for (const auto& [name, tensor] : header.items()) extents.push_back(extent_of(path, name, tensor));
  std::ranges::sort(extents, {}, [](const Extent& e) { return std::pair(e.begin, e.end); });
  std::uint64_t end = 0;
  for (const Extent& e : extents) {
    if (e.end < e.begin || e.end > size - data)
      fail_at(path, 8, "the data of tensor \"" + e.name + "\" is not within the file");
    if (e.begin != end)
      fail_at(path, data + std::min(e.begin, end),
              e.begin < end ? "tensor \"" + e.name + "\" overlaps another"
                            : "bytes before tensor \"" + e.name + "\" that belong to none");
    end = e.end;
  }
  if (end != size - data)
    fail_at(path, data + end, std::to_string(size - data - end) + " bytes after the last tensor");
}

Matrix read_safetensors(const std::string& path, const std::string& bytes, const std::string& wanted,
                        std::optional<FormatId> codes_as) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) fail_at(path, bytes.size(), "the file ends in the size of its header");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kLargestHeader || length > bytes.size() - sizeof length)
    fail_at(path, 0, "a header of " + std::to_string(length) + " bytes goes beyond the end of the file");
  const std::size_t data = sizeof length + length;
  nlohmann::json header;
  std::set<std::string> seen;
  const auto once = [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json& key) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key &&
        !seen.insert(key.get<std::string>()).second)
      fail_at(path, sizeof length, "tensor \"" + key.get<std::string>() + "\" is there twice");
    return true;
  };
  try {
    header =
        nlohmann::json::parse(bytes.begin() + 8, bytes.begin() + static_cast<std::ptrdiff_t>(data), once);
  } catch (const nlohmann::json::parse_error& problem) {
    fail_at(path, sizeof length + (problem.byte > 0 ? problem.byte - 1 : 0), "the header is not JSON");
  }
  if (!header.is_object()) fail_at(path, 8, "the header is not a JSON object");
  header.erase("__metadata__");
  check_layout(path, header, data, bytes.size());
  std::string names;
  for (const auto& [name, tensor] : header.items()) names += (names.empty() ? "" : ", ") + name;
  std::string name = wanted;
  if (name.empty()) {
    if (header.size() != 1)
      fail(path, "which tensor? append :NAME; there are " + (names.empty() ? "none" : names));
    name = header.begin().key();
  }
  if (!header.contains(name))
    fail(path, "has no tensor \"" + name + "\"; there are " + (names.empty() ? "none" : names));

  const nlohmann::json& tensor = header[name];
  Matrix matrix;
  std::vector<std::int64_t> shape;
  const Extent extent = extent_of(path, name, tensor);
  try {
    matrix.format = safetensors_format(path, name, tensor.at("dtype").get<std::string>(), codes_as);
    for (const nlohmann::json& size : tensor.at("shape"))
      shape.push_back(size.is_number_integer() ? size.get<std::int64_t>() : -1);
  } catch (const nlohmann::json::exception&) {
    fail_at(path, 8, "tensor \"" + name + "\" lacks dtype or shape");
  }
  set_shape(matrix, shape, path, 8);
  const std::optional<std::size_t> size =
      byte_count(matrix.rows, matrix.columns, format(matrix.format).bytes());
  if (!size || *size != extent.end - extent.begin)
    fail_at(path, data + extent.begin,
            "tensor \"" + name + "\" has " + std::to_string(extent.end - extent.begin) +
                " bytes, which its shape and type do not give");
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(data + extent.begin);
  matrix.bytes.assign(first, first + static_cast<std::ptrdiff_t>(*size));
  return matrix;
}

std::string npy_header(const Matrix& matrix) {
  std::string_view descr = "|u1";
  if (matrix.format == FormatId::float32) descr = "<f4";
  if (matrix.format == FormatId::float16) descr = "<f2";
  if (matrix.format == FormatId::bfloat16) descr = "<u2";
  std::string dict = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (" +
                     std::to_string(matrix.rows) + ", " + std::to_string(matrix.columns) + "), }";
  dict.resize((10 + dict.size() + 1 + 63) / 64 * 64 - 10, ' ');  // the array begins at a multiple of 64 bytes
  dict.back() = '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xFF);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

std::string safetensors_header(const Matrix& matrix) {
  constexpr std::string_view kNames[] = {"F8_E4M3", "F8_E5M2", "F16", "BF16", "F32"};
  const nlohmann::json header{{"result",
                               {{"dtype", kNames[static_cast<std::size_t>(matrix.format)]},
                                {"shape", {matrix.rows, matrix.columns}},
                                {"data_offsets", {0, matrix.bytes.size()}}}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string size(sizeof length, '\0');
  std::memcpy(size.data(), &length, sizeof length);
  return size + text;
}

bool write_all(int file, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(file, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

// The parts one after the other, as one file.
void write_file(const std::string& path, const std::vector<std::pair<const void*, std::size_t>>& parts) {
  std::error_code problem;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, problem);
  const bool replaceable =
      !std::filesystem::exists(target, problem) || std::filesystem::is_regular_file(target, problem);
  std::string temporary = replaceable ? target.string() + ".XXXXXX" : path;
  const int file = replaceable ? mkstemp(temporary.data()) : open(path.c_str(), O_WRONLY);
  if (file < 0) fail(path, std::string("cannot be written: ") + std::strerror(errno));
  bool good = true;
  for (const auto& [data, size] : parts) good = good && write_all(file, data, size);
  int error = errno;
  if (good && replaceable) {
    struct stat before {};
    const mode_t mask = umask(0);
    umask(mask);
    good = fchmod(file, stat(target.c_str(), &before) == 0 ? before.st_mode & 0777 : 0666 & ~mask) == 0 &&
           fsync(file) == 0;
    error = errno;
  }
  if (close(file) != 0 && good) {
    good = false;
    error = errno;
  }
  if (good && replaceable && std::rename(temporary.c_str(), target.c_str()) != 0) {
    good = false;
    error = errno;
  }
  if (good) return;
  if (replaceable) unlink(temporary.c_str());
  fail(path, std::string("cannot be written: ") + std::strerror(error));
}

}  // namespace

Matrix read_matrix(const std::string& path, std::optional<FormatId> codes_as) {
  std::string file = path;
  std::string name;
  const std::size_t colon = path.rfind(".safetensors:");
  if (colon != std::string::npos) {
    file = path.substr(0, path.find(':', colon));
    name = path.substr(file.size() + 1);
  }
  const std::string bytes = read_file(file);
  if (bytes.starts_with(kNpyMagic)) return read_npy(file, bytes, codes_as);
  return read_safetensors(file, bytes, name, codes_as);
}

float read_scale(const std::string& text) {
  float value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem == std::errc{} && end == text.data() + text.size()) return value;
  const Matrix matrix = read_matrix(text, std::nullopt);
  if (matrix.format != FormatId::float32 || matrix.rows * matrix.columns != 1)
    fail(text, "a scale is one float32 number, not " + std::to_string(matrix.rows) + " x " +
                   std::to_string(matrix.columns) + " of " + std::string(format(matrix.format).name));
  std::memcpy(&value, matrix.bytes.data(), sizeof value);
  return value;
}

void write_matrix(const std::string& path, const Matrix& matrix) {
  const std::string header = is_safetensors(path) ? safetensors_header(matrix) : npy_header(matrix);
  write_file(path, {{header.data(), header.size()}, {matrix.bytes.data(), matrix.bytes.size()}});
}

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  write_file(path, {{text.data(), text.size()}});
}

}  // namespace mmaemu::command
