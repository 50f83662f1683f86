// What the engine's inner loops work on, and the table of inner loops that each target fills. A strip is the
// 4 * lanes output columns that the bytes of one vector number; column 4 * i + j of a strip is lane i of its
// fp32 vector j, so that byte j of 32-bit lane i belongs to it.
#pragma once

#include <cstdint>

#include "mmaemu/formats.h"

#include "cpu/target.h"

namespace mmaemu::cpu {

// K elements that are packed at a time; a multiple of every vector's bytes.
inline constexpr int kChunk = 64;
inline constexpr int kMaxStrip = 64;
inline constexpr int kVectorAlignment = 64;

// How the elements of a chunk fall into blocks: `block` consecutive elements each, the last one maybe fewer.
struct Blocks {
  int elements = 0;  // 1..kChunk
  int block = 0;     // 1..64
  int count() const { return (elements + block - 1) / block; }
  int words() const { return (block + 31) / 32; }  // 32-bit sign masks per block
};

// A chunk of one row of the operand that is broadcast.
struct alignas(kVectorAlignment) PackedRow {
  float values[kChunk];             // scaled by kProductNudge
  std::uint32_t exponents[kChunk];  // the exponent byte four times
  std::uint32_t signs[kChunk];      // [block][word]: bit i is the sign of element i of the block
};

// A chunk of one strip of the operand whose rows become lanes. With blocks of one element there are kChunk
// sign masks.
struct alignas(kVectorAlignment) PackedStrip {
  float values[kChunk * kMaxStrip];            // [element][4][lanes]
  std::uint8_t exponents[kChunk * kMaxStrip];  // [element][4 * lanes], in column order
  std::uint32_t signs[kChunk * kMaxStrip];     // [block][word][4][lanes]
};

// The codes of a chunk of one strip: 4 * lanes bytes of each element, in column order, aligned for a vector.
struct StripCodes {
  const std::uint8_t* data;
  int stride;  // bytes from an element to the next

  const std::uint8_t* at(int element) const { return data + element * stride; }
  StripCodes from(int element) const { return {at(element), stride}; }
};

struct ChainArguments {
  const PackedRow* rows;
  int row_count;             // at most Kernels::rows
  const PackedStrip* strip;  // for Kernels::chain only
  float* accumulators;       // [row][4][lanes]; block results, so at most 14 significant bits each
  Blocks blocks;
  std::uint32_t kept_bits;      // mask of the fp32 bits that a block result keeps
  std::uint8_t least_exponent;  // fp32 exponent field of the preset's min_exp
};

// From accumulators to codes of the result's format.
struct FinishArguments {
  bool scale = false;  // false: the accumulator itself
  float scale_a = 1.0F;
  float scale_b = 1.0F;
  bool scale_again = false;
  float scale_result = 1.0F;
  FormatId format = FormatId::float32;
};

struct Kernels {
  int lanes;
  int rows;       // of the register tile
  int code_rows;  // as many rows at most are worth chain_codes

  // codes[k * strip + c] = columns[c][k] for k < elements and c < 4 * lanes. Reads columns[c] up to the next
  // multiple of the vector size.
  void (*transpose)(const std::uint8_t* const* columns, int elements, std::uint8_t* codes);
  // Sets non_finite[c] to nonzero where column c has a NaN or an infinity, else leaves it.
  void (*pack_strip)(FormatId format, const Blocks& blocks, StripCodes codes, PackedStrip& strip,
                     std::uint8_t* non_finite);
  // codes: kChunk bytes, zero from blocks.elements on. Returns whether there is a NaN or an infinity.
  bool (*pack_row)(FormatId format, const Blocks& blocks, const std::uint8_t* codes, PackedRow& row);
  // Runs all blocks of a chunk on every row. The rounding mode must be toward zero.
  void (*chain)(const ChainArguments& arguments);
  // pack_strip and chain in one, for at most code_rows rows and blocks of one sign mask.
  void (*chain_codes)(const ChainArguments& arguments, FormatId format, StripCodes codes,
                      std::uint8_t* non_finite);
  // sums[i] += terms[i]; round to nearest. count is a multiple of the strip.
  void (*add)(float* sums, const float* terms, std::int64_t count);
  // The 4 * lanes codes, in column order, of accumulators [4][lanes]; round to nearest.
  void (*finish)(const FinishArguments& arguments, const float* accumulators, std::uint32_t* codes);
};

// target must be available.
const Kernels& kernels(Target target);

}  // namespace mmaemu::cpu
