// Reading side of the packed split-K tables. Every index in the bytes is bounded here, so lookups need no
// checks.
#include "platform/split_table.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mmaemu {
namespace {

constexpr std::string_view kMagic = "MMSPLITK";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 8 + 4 + 8;  // before the checksum
constexpr std::size_t kChecksumBytes = 8;
constexpr int kSizeBits = 21;
constexpr std::int64_t kSizeLimit = std::int64_t{1} << kSizeBits;

constexpr std::size_t kShapeBytes = 8;
constexpr std::size_t kCodeBytes = 2;
constexpr std::size_t kChoiceBytes = 4 * kCodeBytes;
constexpr std::size_t kMaxNames = 64;  // of workspaces, outputs, formats: keeps products small
constexpr std::uint64_t kMaxArea = std::uint64_t{1} << 2 * kSizeBits;

constexpr std::uint64_t kPolynomial = 0xC96C5795D7870F42;

// Slicing by eight: table[j] advances a byte that is followed by j others.
constexpr auto kCrcTables = [] {
  std::array<std::array<std::uint64_t, 256>, 8> tables{};
  for (std::uint64_t i = 0; i < 256; ++i) {
    std::uint64_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][i] = crc;
  }
  for (std::size_t j = 1; j < 8; ++j)
    for (std::size_t i = 0; i < 256; ++i)
      tables[j][i] = (tables[j - 1][i] >> 8) ^ tables[0][tables[j - 1][i] & 0xFF];
  return tables;
}();

// The little-endian number at an offset, which must be inside.
template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value =
        static_cast<T>(value | static_cast<T>(std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i)));
  return value;
}

std::uint16_t code_at(std::span<const std::byte> codes, std::size_t index) {
  return load<std::uint16_t>(codes, index * kCodeBytes);
}

std::uint64_t shape_key(std::int64_t M, std::int64_t N, std::int64_t K) {
  return static_cast<std::uint64_t>(M) << (2 * kSizeBits) | static_cast<std::uint64_t>(N) << kSizeBits |
         static_cast<std::uint64_t>(K);
}

// Takes values off the front. After a failure every further value is zero or empty and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }
  void fail() { ok_ = false; }

  std::span<const std::byte> take(std::uint64_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const auto taken = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(static_cast<std::size_t>(size));
    return taken;
  }

  // `count` entries of `size` bytes each.
  std::span<const std::byte> take(std::uint64_t count, std::size_t size) {
    if (count > rest_.size() / size) ok_ = false;
    return take(count * size);
  }

  template <class T>
  T number() {
    const auto taken = take(sizeof(T));
    return ok_ ? load<T>(taken, 0) : T{0};
  }

  // A code below `limit`.
  std::uint8_t code(std::size_t limit) {
    const auto value = number<std::uint8_t>();
    if (value >= limit) ok_ = false;
    return value;
  }

  bool flag() { return code(2) == 1; }

  std::string text() {
    const auto taken = take(number<std::uint16_t>());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  // A count of entries that take at least `size` bytes each.
  std::size_t count(std::size_t size) {
    const auto value = number<std::uint32_t>();
    if (value > rest_.size() / size) ok_ = false;
    return ok_ ? value : 0;
  }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

template <class T>
std::optional<std::uint8_t> index_of(const std::vector<T>& list, const auto& wanted) {
  const auto found = std::find(list.begin(), list.end(), wanted);
  if (found == list.end()) return std::nullopt;
  return static_cast<std::uint8_t>(found - list.begin());
}

}  // namespace

std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t before) {
  std::uint64_t crc = ~before;
  while (bytes.size() >= 8) {
    crc ^= load<std::uint64_t>(bytes, 0);
    std::uint64_t next = 0;
    for (std::size_t j = 0; j < 8; ++j) next ^= kCrcTables[7 - j][crc >> (8 * j) & 0xFF];
    crc = next;
    bytes = bytes.subspan(8);
  }
  for (const std::byte b : bytes)
    crc = kCrcTables[0][(crc ^ std::to_integer<std::uint64_t>(b)) & 0xFF] ^ crc >> 8;
  return ~crc;
}

// Reads a body section by section. Each returns what is wrong, or nothing.
class SplitTable::Parser {
 public:
  using Problem = std::optional<std::string>;

  explicit Parser(std::span<const std::byte> body) : in_(body) {}

  Problem run() {
    for (const auto section :
         {&Parser::identity, &Parser::names, &Parser::schemes, &Parser::replays, &Parser::envelope,
          &Parser::arrays, &Parser::check_indices, &Parser::check_rows}) {
      Problem problem = (this->*section)();
      if (problem) return problem;
      if (!in_.ok()) return "a field runs past the end or is out of range";
    }
    return std::nullopt;
  }

  SplitTable table;

 private:
  Problem identity() {
    table.id_ = in_.text();
    table.gpu_name_ = in_.text();
    table.cublaslt_version_ = in_.text();
    table.rows_ = in_.number<std::uint64_t>();
    table.split_rows_ = in_.number<std::uint64_t>();
    table.workspace0_queries_ = in_.number<std::uint64_t>();
    if (in_.number<std::uint64_t>() != 0)
      return "a call with a zero workspace splits, which the resolver rules out";
    return std::nullopt;
  }

  Problem names() {
    for (std::size_t n = in_.count(8); n > 0; --n) table.workspaces_.push_back(in_.number<std::uint64_t>());
    for (std::size_t n = in_.count(2); n > 0; --n) table.outs_.push_back(in_.text());
    for (std::size_t n = in_.count(2); n > 0; --n) table.formats_.push_back(in_.text());
    for (const std::size_t n : {table.workspaces_.size(), table.outs_.size(), table.formats_.size()})
      if (n == 0 || n > kMaxNames) return "an impossible number of workspaces, outputs or formats";
    return std::nullopt;
  }

  SplitScheme scheme() {
    const std::optional<SplitScheme> found = find_scheme(in_.text());
    if (!found || *found == SplitScheme::none) in_.fail();
    return found.value_or(SplitScheme::none);
  }

  Problem schemes() {
    for (std::size_t n = in_.count(6); n > 0; --n) {
      const auto custom = in_.number<std::uint32_t>();
      table.schemes_.emplace(custom, scheme());
    }
    const std::string other = in_.text();
    if (!other.empty()) {
      table.other_scheme_ = find_scheme(other);
      if (table.other_scheme_.value_or(SplitScheme::none) == SplitScheme::none) return "an unknown scheme";
    }
    table.empty_split_replayed_ = in_.flag();
    return std::nullopt;
  }

  SplitSetting setting() {
    SplitSetting s;
    s.out = in_.code(table.outs_.size());
    s.fast = in_.flag();
    s.a = in_.code(table.formats_.size());
    s.b = in_.code(table.formats_.size());
    return s;
  }

  WorkspaceSetting workspace_setting() {
    WorkspaceSetting s;
    s.workspace = in_.code(table.workspaces_.size());
    s.setting = setting();
    return s;
  }

  Problem replays() {
    for (std::size_t n = in_.count(10); n > 0; --n) {
      const SplitSetting at = setting();
      const auto S = in_.number<std::uint32_t>();
      table.replayed_.emplace_hint(table.replayed_.end(), at, S, scheme());
    }
    return std::nullopt;
  }

  Problem envelope() {
    if (in_.flag()) return grid_envelope();
    AreaEnvelope area;
    area.margin = in_.number<std::uint64_t>();
    if (area.margin == 0 || area.margin > kMaxNames) return "an impossible envelope margin";
    for (std::size_t n = in_.count(13); n > 0; --n) {
      const WorkspaceSetting at = workspace_setting();
      const auto largest = in_.number<std::uint64_t>();
      if (largest > kMaxArea) return "an impossible envelope bound";
      area.largest_split.emplace(at, largest);
    }
    table.envelope_ = std::move(area);
    return std::nullopt;
  }

  Problem grid_envelope() {
    GridEnvelope envelope;
    for (std::size_t n = in_.count(8); n > 0; --n) envelope.grid.push_back(in_.number<std::uint64_t>());
    if (envelope.grid.empty() || !std::is_sorted(envelope.grid.begin(), envelope.grid.end()))
      return "the envelope's K values do not ascend";
    for (std::size_t n = in_.count(5 + 8 * envelope.grid.size()); n > 0; --n) {
      std::vector<std::uint64_t>& bounds = envelope.bounds[workspace_setting()];
      bounds.clear();
      for (std::size_t i = 0; i < envelope.grid.size(); ++i) bounds.push_back(in_.number<std::uint64_t>());
    }
    for (std::size_t n = in_.count(18); n > 0; --n) {
      GridEnvelope::HeldOut& test = envelope.held_out[in_.code(table.workspaces_.size())];
      test.validated = in_.flag();
      test.tested = in_.number<std::uint64_t>();
      test.split_above_bound = in_.number<std::uint64_t>();
    }
    table.envelope_ = std::move(envelope);
    return std::nullopt;
  }

  std::size_t block_codes() const { return 2 * table.formats_.size() * table.formats_.size(); }
  std::size_t pattern_codes() const { return table.workspaces_.size() * table.outs_.size(); }

  Problem arrays() {
    const auto choices = in_.number<std::uint32_t>();
    const auto blocks = in_.number<std::uint32_t>();
    const auto patterns = in_.number<std::uint32_t>();
    const auto shapes = in_.number<std::uint32_t>();
    table.shapes_ = in_.take(shapes, kShapeBytes);
    table.choices_ = in_.take(choices, kChoiceBytes);
    table.blocks_ = in_.take(blocks, block_codes() * kCodeBytes);
    table.patterns_ = in_.take(patterns, pattern_codes() * kCodeBytes);
    table.shape_patterns_ = in_.take(shapes, kCodeBytes);
    if (!in_.done()) return "the arrays do not end where the body ends";
    return std::nullopt;
  }

  static bool all_below(std::span<const std::byte> codes, std::size_t limit) {
    for (std::size_t i = 0; i < codes.size() / kCodeBytes; ++i)
      if (code_at(codes, i) >= limit) return false;
    return true;
  }

  Problem check_indices() {
    const std::size_t choices = table.choices_.size() / kChoiceBytes;
    if (!all_below(table.blocks_, choices + 1) ||
        !all_below(table.patterns_, table.blocks_.size() / (block_codes() * kCodeBytes)) ||
        !all_below(table.shape_patterns_, table.patterns_.size() / (pattern_codes() * kCodeBytes)))
      return "an index is out of range";
    for (std::size_t i = 1; i < table.shapes_.size() / kShapeBytes; ++i)
      if (load<std::uint64_t>(table.shapes_, (i - 1) * kShapeBytes) >=
          load<std::uint64_t>(table.shapes_, i * kShapeBytes))
        return "the shapes do not ascend";
    for (std::size_t i = 0; i < choices; ++i) {
      const AlgoChoice choice = table.choice(i);
      if (choice.splits == 0) return "a row splits K in 0 parts";
      if (choice.splits > 1 && !table.scheme(choice.custom)) return "a row splits K in an unknown way";
    }
    return std::nullopt;
  }

  // Rows, and those that split, of a pattern or a block.
  struct Count {
    std::uint64_t rows = 0;
    std::uint64_t split = 0;
  };

  // For each group of `size` codes, the sum of what its codes stand for.
  static std::vector<Count> sum_groups(std::span<const std::byte> codes, std::size_t size,
                                       const std::vector<Count>& values) {
    std::vector<Count> sums(codes.size() / kCodeBytes / size);
    for (std::size_t i = 0; i < sums.size() * size; ++i) {
      const Count& value = values[code_at(codes, i)];
      sums[i / size].rows += value.rows;
      sums[i / size].split += value.split;
    }
    return sums;
  }

  Problem check_rows() {
    std::vector<Count> cells(1);  // code 0: no row
    for (std::size_t i = 0; i < table.choices_.size() / kChoiceBytes; ++i)
      cells.push_back({1, table.choice(i).splits > 1 ? 1U : 0U});
    const std::vector<Count> blocks = sum_groups(table.blocks_, block_codes(), cells);
    const std::vector<Count> patterns = sum_groups(table.patterns_, pattern_codes(), blocks);
    Count total;
    for (std::size_t i = 0; i < table.shape_patterns_.size() / kCodeBytes; ++i) {
      const Count& pattern = patterns[code_at(table.shape_patterns_, i)];
      total.rows += pattern.rows;
      total.split += pattern.split;
    }
    if (total.rows != table.rows_ || total.split != table.split_rows_)
      return "the number of rows is not the stated one";
    return std::nullopt;
  }

  Reader in_;
};

Result<SplitTable> SplitTable::parse(std::string_view id, std::span<const std::byte> bytes) {
  const auto corrupt = [&](const std::string& problem) {
    return Error{ErrorKind::mmaemu_error, "split-K table " + std::string(id) + " is corrupt: " + problem +
                                              "; no split is decided from it (reinstall the library)"};
  };
  Reader header(bytes.first(std::min(bytes.size(), kHeaderBytes + kChecksumBytes)));
  const auto magic = header.take(kMagic.size());
  const auto version = header.number<std::uint32_t>();
  const auto body_bytes = header.number<std::uint64_t>();
  const auto checksum = header.number<std::uint64_t>();
  if (!header.ok()) return corrupt("its " + std::to_string(bytes.size()) + " bytes are less than a header");
  if (std::string_view(reinterpret_cast<const char*>(magic.data()), magic.size()) != kMagic)
    return corrupt("it does not begin with " + std::string(kMagic));
  if (version != kVersion) return corrupt("its version is " + std::to_string(version));
  const auto body = bytes.subspan(kHeaderBytes + kChecksumBytes);
  if (body.size() != body_bytes) {
    return corrupt("its body has " + std::to_string(body.size()) + " bytes, not " +
                   std::to_string(body_bytes));
  }
  if (crc64(body, crc64(bytes.first(kHeaderBytes))) != checksum)
    return corrupt("its checksum does not match");
  Parser parser(body);
  if (const auto problem = parser.run()) return corrupt(*problem);
  if (parser.table.id_ != id) return corrupt("it names itself \"" + parser.table.id_ + "\"");
  return std::move(parser.table);
}

std::optional<SplitSetting> SplitTable::setting(std::string_view out, bool fast, std::string_view a,
                                                std::string_view b) const {
  const auto out_code = index_of(outs_, out);
  const auto a_code = index_of(formats_, a);
  const auto b_code = index_of(formats_, b);
  if (!out_code || !a_code || !b_code) return std::nullopt;
  return SplitSetting{*out_code, fast, *a_code, *b_code};
}

std::optional<std::uint8_t> SplitTable::workspace(std::int64_t bytes) const {
  if (bytes < 0) return std::nullopt;
  return index_of(workspaces_, static_cast<std::uint64_t>(bytes));
}

AlgoChoice SplitTable::choice(std::size_t index) const {
  return {code_at(choices_, 4 * index), code_at(choices_, 4 * index + 1), code_at(choices_, 4 * index + 2),
          code_at(choices_, 4 * index + 3)};
}

std::optional<AlgoChoice> SplitTable::find(std::int64_t M, std::int64_t N, std::int64_t K,
                                           const WorkspaceSetting& at) const {
  for (const std::int64_t size : {M, N, K})
    if (size < 0 || size >= kSizeLimit) return std::nullopt;
  const std::uint64_t key = shape_key(M, N, K);
  std::size_t low = 0;
  std::size_t high = shapes_.size() / kShapeBytes;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (load<std::uint64_t>(shapes_, middle * kShapeBytes) < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == shapes_.size() / kShapeBytes || load<std::uint64_t>(shapes_, low * kShapeBytes) != key)
    return std::nullopt;
  const std::size_t formats = formats_.size();
  const SplitSetting& setting = at.setting;
  const std::size_t pattern = code_at(shape_patterns_, low);
  const std::size_t block =
      code_at(patterns_, (pattern * workspaces_.size() + at.workspace) * outs_.size() + setting.out);
  const std::size_t cell =
      code_at(blocks_, ((block * 2 + (setting.fast ? 1 : 0)) * formats + setting.a) * formats + setting.b);
  if (cell == 0) return std::nullopt;
  return choice(cell - 1);
}

std::optional<SplitScheme> SplitTable::scheme(std::uint32_t custom) const {
  const auto found = schemes_.find(custom);
  return found == schemes_.end() ? other_scheme_ : std::optional(found->second);
}

bool SplitTable::replayed(const SplitSetting& setting, std::int64_t S, SplitScheme scheme) const {
  return replayed_.contains({setting, S, scheme});
}

}  // namespace mmaemu
