// The order in which evidence decides a split, and what each kind of evidence is worth. Recorded rows are in
// split_table.h, inference beyond them in envelope.h, the live heuristic in live_query.h.
#include "platform/resolve_splitk.h"

#include <string>
#include <utility>

#include "mmaemu/formats.h"

#include "base/memory.h"
#include "platform/embedded_tables.h"
#include "platform/environment.h"

namespace mmaemu {
namespace {

constexpr std::int64_t kContiguousTile = 128;  // K elements of a k-tile of a contiguous split
constexpr const char* kBitsMayDiffer = ". The bits may differ from the platform's.";

// Explicit forms that the profile's preset takes, e.g. (S, "serial") or (S, "pairwise"); empty: only S = 1.
std::string scheme_forms(const Profile& profile, const std::string& S) {
  std::string forms;
  for (const SplitScheme scheme : {SplitScheme::serial, SplitScheme::pairwise, SplitScheme::contiguous}) {
    if (!AccumulationPlan::make(profile.preset, kContiguousTile, true, SplitK{2, scheme}).ok()) continue;
    forms += (forms.empty() ? "(" : " or (") + S + ", \"" + std::string(name(scheme)) + "\")";
  }
  return forms;
}

// The query with formats and output in one spelling; ValueError for what no FP8 product has.
Result<SplitQuery> normalized(const SplitQuery& query) {
  for (const auto& [size, value] :
       {std::pair{"M", query.M}, std::pair{"N", query.N}, std::pair{"K", query.K}}) {
    if (value < 0)
      return Error{ErrorKind::value_error,
                   std::string(size) + " must be at least 0, not " + std::to_string(value)};
  }
  SplitQuery spelled = query;
  for (const auto& [argument, text] :
       {std::pair{"a_dtype", &spelled.a_format}, std::pair{"b_dtype", &spelled.b_format}}) {
    const std::optional<FormatId> id = find_format(*text);
    if (!id || !format(*id).operand)
      return Error{ErrorKind::value_error,
                   std::string(argument) + " must be e4m3 or e5m2, not \"" + *text + "\""};
    *text = format(*id).name;
  }
  const std::optional<FormatId> out = find_format(query.out_dtype);
  if (!out) {
    std::string known;
    for (const Format& f : kFormats) known += (known.empty() ? "" : ", ") + std::string(f.dtype);
    return Error{ErrorKind::value_error,
                 "out_dtype must be one of " + known + ", not \"" + query.out_dtype + "\""};
  }
  spelled.out_dtype = format(*out).dtype;
  return spelled;
}

// One call of resolve_splitk.
class Resolver {
 public:
  Resolver(const SplitQuery& query, const Profile& profile, const SplitEvidence& evidence)
      : query_(query), profile_(profile), evidence_(evidence) {}

  Result<SplitResolution> explicit_split(const SplitRequest& request) {
    SplitK split;
    if (const auto* S = std::get_if<std::int64_t>(&request)) {
      if (*S > 1) return bare_integer(*S);
      split.S = *S;
    } else if (const auto* written = std::get_if<SplitAsWritten>(&request)) {
      const Result<SplitScheme> scheme = parse_scheme(written->scheme);
      if (!scheme.ok()) return scheme.error();
      split = {written->S, scheme.value()};
    } else {
      split = std::get<SplitK>(request);
    }
    if (const Status status = validate(split); !status.ok()) return status.error();
    if (split.S > 1) {
      if (Status status = load_table(); !status.ok()) return status.error();
    }
    return conclude(split, {"explicit", std::nullopt, "given by the caller", ""});
  }

  Result<SplitResolution> automatic() {
    bool strict = query_.strict.value_or(false);
    if (!query_.strict) {
      const Result<bool> flag = environment_flag("MMAEMU_SPLITK_STRICT");
      if (!flag.ok()) return flag.error();
      strict = flag.value();
    }
    if (Status status = load_table(); !status.ok()) return status.error();
    if (profile_.workspace_bytes == 0) return workspace0();
    if (table_ == nullptr) {
      return unknown(profile_.splitk_table
                         ? "the library has no table \"" + *profile_.splitk_table + "\""
                         : "the profile has no reference platform whose splits were recorded");
    }
    if (query_.M == 0 || query_.N == 0 || query_.K == 0) {
      return conclude({}, {"envelope", table_->id(), "a size is zero: nothing is accumulated", ""});
    }
    std::string reasons =
        "the operands are not in the standard layout, which recorded rows and the live query need";
    if (query_.layout_std) {
      if (const auto row = recorded_row()) return from_choice(*row, "table", "table row", table_->id());
      const Result<LiveAnswer> live = evidence_.live->ask(query_, profile_);
      if (!live.ok()) return live.error();
      if (live.value().choice)
        return from_choice(*live.value().choice, "live-query", "live query", std::nullopt);
      reasons = "table " + table_->id() + " has no row for it; " + live.value().reason;
    }
    return envelope(strict, std::move(reasons));
  }

 private:
  struct Source {
    std::string source;
    std::optional<std::string> table_id;
    std::string note;
    std::string caveat;  // why a split that was replayed elsewhere is not verified here
  };

  // Leaves table_ null where the profile's table is not one of the library's.
  Status load_table() {
    if (!profile_.splitk_table) return {};
    const Result<SplitTable>* loaded = evidence_.table(*profile_.splitk_table);
    if (loaded == nullptr) return {};
    if (!loaded->ok()) return loaded->error();
    table_ = &loaded->value();
    setting_ = table_->setting(query_.out_dtype, query_.fast, query_.a_format, query_.b_format);
    if (profile_.workspace_bytes) workspace_ = table_->workspace(*profile_.workspace_bytes);
    return {};
  }

  std::string formats() const { return query_.a_format + " x " + query_.b_format; }

  std::string call_text() const {
    return "M=" + std::to_string(query_.M) + ", N=" + std::to_string(query_.N) +
           ", K=" + std::to_string(query_.K) + " (" + formats() + " to " + query_.out_dtype + ", " +
           (query_.fast ? "fast" : "slow") + " accumulation) on profile " + profile_.name;
  }

  Error bare_integer(std::int64_t S) const {
    const std::string forms = scheme_forms(profile_, std::to_string(S));
    return {ErrorKind::value_error,
            "splitk=" + std::to_string(S) + " does not say which K elements each part owns; profile " +
                profile_.name + " takes " + (forms.empty() ? "only splitk=1" : "splitk=" + forms)};
  }

  Error unknown(const std::string& reason) const {
    const std::string forms = scheme_forms(profile_, "S");
    std::string text = "cannot decide the split of K for " + call_text() + ": " + reason +
                       ". Pass splitk=1 if the platform is known not to split this call";
    if (!forms.empty()) text += ", splitk=" + forms + " if its split is known";
    if (profile_.gpu_name) {
      text += ", or run on the profile's GPU (" + *profile_.gpu_name;
      if (profile_.cublaslt_version) text += " with cuBLASLt " + *profile_.cublaslt_version;
      text += ")";
    }
    return {ErrorKind::split_unknown, text + "."};
  }

  Result<SplitResolution> workspace0() {
    std::string note = "the workspace is 0 bytes, and a split needs one";
    if (table_ != nullptr) {
      note +=
          ": none of " + std::to_string(table_->workspace0_queries()) + " recorded calls without one splits";
    }
    return conclude({}, {"workspace0", profile_.splitk_table, std::move(note), ""});
  }

  std::optional<AlgoChoice> recorded_row() const {
    if (!setting_ || !workspace_) return std::nullopt;
    return table_->find(query_.M, query_.N, query_.K, {*workspace_, *setting_});
  }

  Result<SplitResolution> from_choice(const AlgoChoice& choice, std::string source, const std::string& origin,
                                      std::optional<std::string> table_id) {
    std::string note = origin + ": algo " + std::to_string(choice.algo) + ", tile " +
                       std::to_string(choice.tile) + ", numSplitsK " + std::to_string(choice.splits) +
                       ", customOption " + std::to_string(choice.custom);
    if (choice.splits == 1)
      return conclude({}, {std::move(source), std::move(table_id), std::move(note), ""});
    const std::optional<SplitScheme> scheme = table_->scheme(choice.custom);
    if (!scheme) return unknown(note + ", and how that customOption lays out K is not known");
    std::string caveat;
    if (!table_->lists(choice.custom)) {
      caveat =
          "customOption " + std::to_string(choice.custom) + " is not one whose layout of K was established";
    }
    return conclude({choice.splits, *scheme},
                    {std::move(source), std::move(table_id), std::move(note), std::move(caveat)});
  }

  Result<SplitResolution> envelope(bool strict, std::string reasons) {
    EnvelopeVerdict verdict{false, false, "there is no bound for the profile's workspace and these formats"};
    if (setting_ && workspace_)
      verdict = infer(table_->envelope(), {*workspace_, *setting_}, query_.M, query_.N, query_.K);
    if (!verdict.unsplit) return unknown(reasons + "; " + verdict.text);
    if (strict) return unknown(reasons + "; strict mode does not infer S = 1 although " + verdict.text);

    SplitResolution resolution;
    resolution.decision = {1, SplitScheme::none, "envelope", verdict.validated, table_->id(), verdict.text};
    if (!verdict.validated) {
      resolution.warnings.push_back(
          {WarningKind::unvalidated_envelope,
           "S = 1 is inferred, not recorded, for " + call_text() + ": " + verdict.text + kBitsMayDiffer,
           once_key(WarningKind::unvalidated_envelope,
                    {profile_.name, std::to_string(*profile_.workspace_bytes), query_.out_dtype,
                     query_.fast ? "fast" : "slow", formats()})});
    }
    return resolution;
  }

  // A contiguous split hands out q = ceil(T/S) tiles a part; the last part is empty where the others use up
  // all T.
  bool has_empty_part(const SplitK& split) const {
    if (split.scheme != SplitScheme::contiguous) return false;
    const std::int64_t tiles = query_.K / kContiguousTile + (query_.K % kContiguousTile != 0 ? 1 : 0);
    const std::int64_t each = tiles / split.S + (tiles % split.S != 0 ? 1 : 0);
    return each == 0 || split.S - 1 >= tiles / each + (tiles % each != 0 ? 1 : 0);
  }

  Result<SplitResolution> conclude(SplitK split, Source source) {
    SplitResolution resolution;
    resolution.decision = {split.S,
                           split.scheme,
                           std::move(source.source),
                           true,
                           std::move(source.table_id),
                           std::move(source.note)};
    if (split.S == 1) return resolution;

    std::string caveat = std::move(source.caveat);
    if (has_empty_part(split) && (table_ == nullptr || !table_->empty_split_replayed()))
      caveat += (caveat.empty() ? "" : "; ") + std::string("a part of the split is empty");
    const bool replayed = table_ != nullptr && setting_ && table_->replayed(*setting_, split.S, split.scheme);
    resolution.decision.verified = replayed && caveat.empty();
    if (!caveat.empty()) resolution.decision.note += "; " + caveat;

    const bool experimental = profile_.splitk_maturity == "experimental";
    if (resolution.decision.verified && !experimental) return resolution;
    std::string why = !caveat.empty() ? caveat
                      : !replayed
                          ? "this combination of split, output and formats was not replayed on hardware"
                          : "split decisions of this profile are experimental";
    resolution.warnings.push_back(
        {WarningKind::unverified_split,
         "S = " + std::to_string(split.S) + " (" + std::string(name(split.scheme)) + ") for " + call_text() +
             " is not verified: " + why + kBitsMayDiffer,
         once_key(WarningKind::unverified_split,
                  {profile_.name, query_.fast ? "fast" : "slow", std::to_string(split.S),
                   std::string(name(split.scheme)), query_.out_dtype, formats(), caveat})});
    return resolution;
  }

  static std::string once_key(WarningKind kind, std::initializer_list<std::string> parts) {
    std::string key(class_name(kind));
    for (const std::string& part : parts) key += "|" + part;
    return key;
  }

  const SplitQuery& query_;
  const Profile& profile_;
  const SplitEvidence& evidence_;
  const SplitTable* table_ = nullptr;
  std::optional<SplitSetting> setting_;    // the call's, in the table's codes
  std::optional<std::uint8_t> workspace_;  // the profile's, likewise
};

}  // namespace

Result<SplitResolution> resolve_splitk(const SplitQuery& query, const Profile& profile,
                                       const SplitRequest& request, const SplitEvidence& evidence) {
  const Result<SplitQuery> spelled = normalized(query);
  if (!spelled.ok()) return spelled.error();
  Resolver resolver(spelled.value(), profile, evidence);
  if (std::holds_alternative<SplitAuto>(request)) return resolver.automatic();
  return resolver.explicit_split(request);
}

Result<SplitResolution> resolve_splitk(const SplitQuery& query, const Profile& profile,
                                       const SplitRequest& request) try {
  return resolve_splitk(query, profile, request, SplitEvidence{embedded_table, &cublaslt_query()});
} catch (...) {
  return out_of_memory();
}

}  // namespace mmaemu
