#include "files.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
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

std::string read_file(const std::string& path) {
  std::error_code problem;
  if (std::filesystem::is_directory(path, problem)) fail(path, "is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, std::strerror(errno));
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) fail(path, "cannot be read");
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
      ++keys_;
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (at_ != end_) fail_at(path_, at_, "text after the header's dict");
    if (keys_ != 3 || descr.empty())
      fail_at(path_, begin, "the header needs descr, fortran_order and shape, once each");
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
  int keys_ = 0;
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

  Matrix matrix;
  if (header.descr == "<f4")
    matrix.format = FormatId::float32;
  else if (header.descr == "<f2")
    matrix.format = FormatId::float16;
  else if (header.descr == "|u1" || header.descr == "<u1")
    matrix.format = format_of_codes(path, header.descr_at, 8, codes_as);
  else if (header.descr == "<u2")
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

Matrix read_safetensors(const std::string& path, const std::string& bytes, const std::string& wanted,
                        std::optional<FormatId> codes_as) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) fail_at(path, bytes.size(), "the file ends in the size of its header");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kLargestHeader || length > bytes.size() - sizeof length)
    fail_at(path, 0, "a header of " + std::to_string(length) + " bytes goes beyond the end of the file");
  const std::size_t data = sizeof length + length;
  nlohmann::json header;
  try {
    header = nlohmann::json::parse(bytes.begin() + 8, bytes.begin() + static_cast<std::ptrdiff_t>(data));
  } catch (const nlohmann::json::parse_error& problem) {
    fail_at(path, sizeof length + (problem.byte > 0 ? problem.byte - 1 : 0), "the header is not JSON");
  }
  if (!header.is_object()) fail_at(path, 8, "the header is not a JSON object");
  header.erase("__metadata__");
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
  std::vector<std::uint64_t> offsets;
  try {
    matrix.format = safetensors_format(path, name, tensor.at("dtype").get<std::string>(), codes_as);
    for (const nlohmann::json& size : tensor.at("shape"))
      shape.push_back(size.is_number_integer() ? size.get<std::int64_t>() : -1);
    for (const nlohmann::json& offset : tensor.at("data_offsets"))
      offsets.push_back(offset.is_number_unsigned() ? offset.get<std::uint64_t>()
                                                    : std::numeric_limits<std::uint64_t>::max());
  } catch (const nlohmann::json::exception&) {
    fail_at(path, 8, "tensor \"" + name + "\" lacks dtype, shape or data_offsets");
  }
  set_shape(matrix, shape, path, 8);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > bytes.size() - data)
    fail_at(path, 8, "the data of tensor \"" + name + "\" is not within the file");
  const std::optional<std::size_t> size =
      byte_count(matrix.rows, matrix.columns, format(matrix.format).bytes());
  if (!size || *size != offsets[1] - offsets[0])
    fail_at(path, data + offsets[0],
            "tensor \"" + name + "\" has " + std::to_string(offsets[1] - offsets[0]) +
                " bytes, which its shape and type do not give");
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(data + offsets[0]);
  matrix.bytes.assign(first, first + static_cast<std::ptrdiff_t>(*size));
  return matrix;
}

bool is_safetensors(const std::string& path) {
  return path.ends_with(".safetensors");
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
  if (bytes.starts_with("\x93NUMPY")) return read_npy(file, bytes, codes_as);
  if (is_safetensors(file)) return read_safetensors(file, bytes, name, codes_as);
  fail_at(file, 0, "neither a .npy file nor named .safetensors");
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
