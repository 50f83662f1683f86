// Names the bytes that embedded_tables.S brings in.
#include "platform/embedded_tables.h"

#include <array>
#include <memory>
#include <mutex>

extern "C" {
extern const std::byte mmaemu_splitk_rtx4060_begin[];
extern const std::byte mmaemu_splitk_rtx4060_end[];
extern const std::byte mmaemu_splitk_h100pcie_begin[];
extern const std::byte mmaemu_splitk_h100pcie_end[];
}

namespace mmaemu {

std::span<const EmbeddedTable> embedded_tables() {
  static const std::array<EmbeddedTable, 2> tables{{
      {"heur_rtx4060_lt12.8.3.14", {mmaemu_splitk_rtx4060_begin, mmaemu_splitk_rtx4060_end}},
      {"heur_h100pcie_lt12.8.3.14", {mmaemu_splitk_h100pcie_begin, mmaemu_splitk_h100pcie_end}},
  }};
  return tables;
}

const Result<SplitTable>* embedded_table(std::string_view id) {
  struct Slot {
    std::once_flag once;
    std::unique_ptr<const Result<SplitTable>> table;
  };
  static std::array<Slot, 2> slots;
  const std::span<const EmbeddedTable> tables = embedded_tables();
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].id != id) continue;
    std::call_once(slots[i].once, [&] {
      slots[i].table =
          std::make_unique<const Result<SplitTable>>(SplitTable::parse(tables[i].id, tables[i].bytes));
    });
    return slots[i].table.get();
  }
  return nullptr;
}

}  // namespace mmaemu
