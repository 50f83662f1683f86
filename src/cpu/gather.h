// Codes of a chain's elements out of operand views of any strides, in the order of the chain.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "mmaemu/gemm.h"
#include "mmaemu/plan.h"

namespace mmaemu::cpu {

// Calls use(k, count, at) for each run of consecutive K indices among the chain's elements
// first..first+count-1; `at` counts from first.
template <class Use>
void for_each_run(const Chain& chain, std::int64_t first, std::int64_t count, Use use) {
  for (std::int64_t at = 0; at < count;) {
    const std::int64_t element = first + at;
    const std::int64_t in_run = element % chain.width;
    const std::int64_t length = std::min(chain.width - in_run, count - at);
    use(chain.begin + element / chain.width * chain.stride + in_run, length, at);
    at += length;
  }
}

inline const std::uint8_t* code_at(const OperandView& view, std::int64_t row, std::int64_t k) {
  return static_cast<const std::uint8_t*>(view.data) + row * view.row_stride + k * view.depth_stride;
}

// The same rows, from `first` on.
inline OperandView rows_from(const OperandView& view, std::int64_t first, std::int64_t count) {
  OperandView part = view;
  part.data = code_at(view, first, 0);
  part.rows = count;
  return part;
}

inline void copy_elements(const OperandView& view, std::int64_t row, const Chain& chain, std::int64_t first,
                          std::int64_t count, std::uint8_t* to) {
  for_each_run(chain, first, count, [&](std::int64_t k, std::int64_t length, std::int64_t at) {
    const std::uint8_t* from = code_at(view, row, k);
    if (view.depth_stride == 1) {
      std::memcpy(to + at, from, static_cast<std::size_t>(length));
    } else {
      for (std::int64_t i = 0; i < length; ++i) to[at + i] = from[i * view.depth_stride];
    }
  });
}

}  // namespace mmaemu::cpu
