// The resolver with its sources of evidence as arguments. The public form is in mmaemu/platform.h.
#pragma once

#include <functional>
#include <string_view>

#include "mmaemu/platform.h"

#include "platform/live_query.h"
#include "platform/split_table.h"

namespace mmaemu {

struct SplitEvidence {
  // The table of an id; null where there is none.
  std::function<const Result<SplitTable>*(std::string_view id)> table;
  LiveQuery* live = nullptr;
};

Result<SplitResolution> resolve_splitk(const SplitQuery& query, const Profile& profile,
                                       const SplitRequest& request, const SplitEvidence& evidence);

}  // namespace mmaemu
