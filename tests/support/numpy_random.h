// numpy.random.default_rng(seed).integers(0, bound, dtype=uint8) (NumPy 1.17 and later): recorded operands
// that are too large to keep are recorded by their seed.
#pragma once

#include <cstdint>
#include <span>

namespace mmaemu::testing {

// PCG64 (pcg_setseq_128_xsl_rr_64), seeded through NumPy's SeedSequence from one 32-bit integer.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(std::uint32_t seed);

  // Fills `values` as one call of integers(0, bound, size, dtype=uint8) does; 2 <= bound <= 255.
  void integers(std::uint8_t bound, std::span<std::uint8_t> values);

 private:
  __extension__ using Wide = unsigned __int128;
  std::uint64_t next64();
  std::uint32_t next32();
  Wide state_ = 0;
  Wide increment_ = 0;
  std::uint32_t upper_half_ = 0;  // of a 64-bit draw whose lower half was used
  bool has_upper_half_ = false;
};

}  // namespace mmaemu::testing
