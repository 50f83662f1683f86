// The split-K tables that the library carries, by id. Their format and checks are in split_table.h.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "platform/split_table.h"

namespace mmaemu {

struct EmbeddedTable {
  std::string_view id;
  std::span<const std::byte> bytes;
};

std::span<const EmbeddedTable> embedded_tables();

// The table called `id`, parsed and verified when it is first asked for; null where the library carries none.
// Thread safe; the pointer holds for the life of the process.
const Result<SplitTable>* embedded_table(std::string_view id);

}  // namespace mmaemu
