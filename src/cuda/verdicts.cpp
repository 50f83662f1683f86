// Entries are lines of text in a file each, under a hash of the key, and end with a hash of themselves.
#include "cuda/verdicts.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <mutex>

#include "base/sha256.h"
#include "platform/files.h"

namespace mmaemu::cuda {
namespace {

constexpr std::string_view kSeal = "sha256 ";

std::mutex mutex;

// By cache folder and key: a process that changes MMAEMU_CACHE_DIR starts afresh.
std::map<std::string, std::vector<GateResult>>& kept() {
  static std::map<std::string, std::vector<GateResult>> verdicts;
  return verdicts;
}

std::string path_of(const VerdictKey& key) {
  const std::string folder = cache_folder();
  return folder.empty() ? folder : folder + "/verdicts/" + sha256(bytes_of(key.text())) + ".txt";
}

// One line, one field.
std::string flat(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

std::string written(const VerdictKey& key, const std::vector<GateResult>& gates) {
  std::string text = key.text();
  for (const GateResult& gate : gates) {
    std::array<char, 32> seconds{};
    std::snprintf(seconds.data(), seconds.size(), "%.6f", gate.seconds);
    text += "gate\t" + gate.name + "\t" + (gate.passed ? "passed" : "failed") + "\t" + seconds.data() + "\t" +
            flat(gate.reason);
    for (const auto& [name, count] : gate.details) text += "\t" + name + "\t" + std::to_string(count);
    text += "\n";
  }
  return text + std::string(kSeal) + sha256(bytes_of(text)) + "\n";
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<GateResult> parse_gate(std::string_view line) {
  const std::vector<std::string_view> fields = split(line, '\t');
  if (fields.size() < 5 || fields.size() % 2 == 0 || fields[0] != "gate") return std::nullopt;
  GateResult gate;
  gate.name = fields[1];
  gate.passed = fields[2] == "passed";
  if (!parse(fields[3], gate.seconds)) return std::nullopt;
  gate.reason = fields[4];
  for (std::size_t i = 5; i < fields.size(); i += 2)
    if (!parse(fields[i + 1], gate.details[std::string(fields[i])])) return std::nullopt;
  gate.cached = true;
  return gate;
}

std::optional<std::vector<GateResult>> parse_entry(const VerdictKey& key, std::string_view text) {
  const std::size_t seal = text.rfind(kSeal);
  if (seal == std::string_view::npos) return std::nullopt;
  const std::string_view body = text.substr(0, seal);
  if (text.substr(seal) != std::string(kSeal) + sha256(bytes_of(body)) + "\n") return std::nullopt;
  const std::string head = key.text();
  if (!body.starts_with(head)) return std::nullopt;
  std::vector<GateResult> gates;
  for (const std::string_view line : split(body.substr(head.size()), '\n')) {
    if (line.empty()) continue;
    std::optional<GateResult> gate = parse_gate(line);
    if (!gate) return std::nullopt;
    gates.push_back(*std::move(gate));
  }
  if (gates.empty()) return std::nullopt;
  return gates;
}

}  // namespace

std::string VerdictKey::text() const {
  return "mmaemu gates 1\nversion " MMAEMU_VERSION "\nkernel " + kernel + "\ngpu " + uuid + "\ncapability " +
         capability + "\ndriver " + std::to_string(driver) + " " + driver_build + "\nbinary " + binary + "\n";
}

std::optional<std::vector<GateResult>> find_verdict(const VerdictKey& key) {
  const std::string path = path_of(key);
  {
    const std::lock_guard lock(mutex);
    if (const auto entry = kept().find(path + "\n" + key.text()); entry != kept().end()) {
      std::vector<GateResult> gates = entry->second;
      for (GateResult& gate : gates) gate.cached = true;
      return gates;
    }
  }
  if (path.empty()) return std::nullopt;
  const std::optional<Bytes> contents = read_file(path);
  return contents ? parse_entry(key, text_of(*contents)) : std::nullopt;
}

void keep_verdict(const VerdictKey& key, const std::vector<GateResult>& gates) {
  const std::string path = path_of(key);
  {
    const std::lock_guard lock(mutex);
    kept()[path + "\n" + key.text()] = gates;
  }
  // A folder that cannot be written costs the next process a run of the gates; nothing is wrong.
  if (!path.empty()) static_cast<void>(write_file(path, bytes_of(written(key, gates))).ok());
}

}  // namespace mmaemu::cuda
