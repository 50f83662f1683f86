// SHA-256 (FIPS 180-4): recorded results that are too large to keep are recorded by their hash.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mmaemu::testing {

// Lower-case hexadecimal, as Python's hashlib prints it.
std::string sha256(std::span<const std::byte> bytes);

}  // namespace mmaemu::testing
