// The recorded split-K tables as they were recorded (data/splitk/recorded), for comparison with the packed
// ones.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "support/npz.h"

namespace mmaemu::testing {

struct RecordedTable {
  explicit RecordedTable(const std::string& name)
      : archive(Npz::open(folder() + name + ".npz")),
        meta(nlohmann::json::parse(std::ifstream(folder() + name + ".json"))) {}

  static std::string folder() { return MMAEMU_SOURCE_DIR "/data/splitk/recorded/"; }
  template <class T>
  std::span<const T> column(const char* name) {
    return archive.array(name).template as<T>();
  }

  Npz archive;
  nlohmann::json meta;
};

}  // namespace mmaemu::testing
