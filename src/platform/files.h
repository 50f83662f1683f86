// The files that the library reads and keeps: kernel binaries beside it, and a cache that may be lost at any
// time.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mmaemu/status.h"

namespace mmaemu {

using Bytes = std::vector<std::byte>;

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A file's contents; none where it cannot be read.
std::optional<Bytes> read_file(const std::string& path);

// Replaces a file as a whole or not at all, so that no reader sees half of one. Creates its folder. The error
// says what the system said.
Status write_file(const std::string& path, std::span<const std::byte> contents);

// $MMAEMU_CACHE_DIR, else $XDG_CACHE_HOME/mmaemu, else ~/.cache/mmaemu; empty where none of them is set.
std::string cache_folder();

// The program or shared library that holds an address, links followed; empty where it cannot be told.
std::string file_of(const void* address);

// The folder of the one that holds this code; empty where it cannot be told.
std::string library_folder();

}  // namespace mmaemu
