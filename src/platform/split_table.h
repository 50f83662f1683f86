// A recorded split-K table in the form the library embeds: checks the bytes once, then answers from them in
// place. Format: data/splitk/README.md. What follows from an answer is resolve_splitk.cpp's matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "mmaemu/plan.h"
#include "mmaemu/status.h"

#include "platform/envelope.h"

namespace mmaemu {

// What cuBLASLt's heuristic chose for a call.
struct AlgoChoice {
  std::uint32_t algo = 0;
  std::uint32_t tile = 0;
  std::uint32_t splits = 1;  // numSplitsK
  std::uint32_t custom = 0;  // customOption
  friend bool operator==(const AlgoChoice&, const AlgoChoice&) = default;
};

// CRC-64/XZ (ECMA-182's polynomial, reflected) of bytes that follow others whose checksum is `before`.
std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t before = 0);

class SplitTable {
 public:
  // MmaemuError naming the table `id` unless the bytes are whole, consistent and those of that table. The
  // bytes must outlive the table.
  static Result<SplitTable> parse(std::string_view id, std::span<const std::byte> bytes);

  const std::string& id() const { return id_; }
  const std::string& gpu_name() const { return gpu_name_; }
  const std::string& cublaslt_version() const { return cublaslt_version_; }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t workspace0_queries() const { return workspace0_queries_; }

  // Codes of what a call asks for; nothing where no row can have it. Names are PTX's for formats, torch's for
  // out.
  std::optional<SplitSetting> setting(std::string_view out, bool fast, std::string_view a,
                                      std::string_view b) const;
  std::optional<std::uint8_t> workspace(std::int64_t bytes) const;

  // The recorded row, if the key has one. Sizes of 2^21 and above have none.
  std::optional<AlgoChoice> find(std::int64_t M, std::int64_t N, std::int64_t K,
                                 const WorkspaceSetting& at) const;

  const Envelope& envelope() const { return envelope_; }

  // How a split with this customOption lays out K; nothing where that is not known.
  std::optional<SplitScheme> scheme(std::uint32_t custom) const;
  // The customOption is one whose scheme was established, not one that only follows the others.
  bool lists(std::uint32_t custom) const { return schemes_.contains(custom); }

  // The combination was run on the table's device and gave the bits that the plan predicts.
  bool replayed(const SplitSetting& setting, std::int64_t S, SplitScheme scheme) const;
  // That holds for contiguous splits with an empty part as well.
  bool empty_split_replayed() const { return empty_split_replayed_; }

 private:
  class Parser;

  AlgoChoice choice(std::size_t index) const;

  std::string id_;
  std::string gpu_name_;
  std::string cublaslt_version_;
  std::uint64_t rows_ = 0;
  std::uint64_t split_rows_ = 0;
  std::uint64_t workspace0_queries_ = 0;
  std::vector<std::uint64_t> workspaces_;
  std::vector<std::string> outs_;
  std::vector<std::string> formats_;
  std::map<std::uint32_t, SplitScheme> schemes_;
  std::optional<SplitScheme> other_scheme_;
  bool empty_split_replayed_ = false;
  std::set<std::tuple<SplitSetting, std::int64_t, SplitScheme>> replayed_;
  Envelope envelope_;

  // Into the caller's bytes, unaligned and little endian.
  std::span<const std::byte> shapes_;
  std::span<const std::byte> choices_;
  std::span<const std::byte> blocks_;
  std::span<const std::byte> patterns_;
  std::span<const std::byte> shape_patterns_;
};

}  // namespace mmaemu
