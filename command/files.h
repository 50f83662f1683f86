// Matrices in .npy and .safetensors files, and files that are written as a whole or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "mmaemu/formats.h"

namespace mmaemu::command {

// A file that cannot be used. what() names the file and, where its contents are at fault, the byte.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A row-major matrix of raw codes.
struct Matrix {
  FormatId format = FormatId::e4m3;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::uint8_t> bytes;
};

// Reads PATH, or PATH:NAME for a tensor of a .safetensors file, whose name may be left out where it is the
// only one. `codes_as` says what unsigned integers are codes of, and what ml_dtypes' numbers are: a .npy file
// names neither FP8 nor bfloat16. One- and zero-dimensional arrays are a row. FileError for whatever is no
// such matrix.
Matrix read_matrix(const std::string& path, std::optional<FormatId> codes_as);

// A scale: a number, or a file with one float32.
float read_scale(const std::string& text);

// To a .npy file, FP8 and bfloat16 as unsigned integers, or to a .safetensors file as the tensor "result".
// What was there before stays until the new file is complete.
void write_matrix(const std::string& path, const Matrix& matrix);

// Likewise a text; "-" is standard output.
void write_text(const std::string& path, const std::string& text);

}  // namespace mmaemu::command
