// SHA-256 (FIPS 180-4): names cached binaries, and recorded results that are too large to keep.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mmaemu {

// Lower-case hexadecimal, as Python's hashlib prints it.
std::string sha256(std::span<const std::byte> bytes);

}  // namespace mmaemu
