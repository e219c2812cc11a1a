// SPDX-License-Identifier: Apache-2.0
// The docs of kinds and of their parameters, which a generator reads from the headers.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "etude/kinds/table.h"

namespace etude::kinds {
namespace {

struct Doc {
  std::string_view kind, parameter, text;
};
constexpr Doc kDocs[] = {
#include "etude/kinds/docs.inc"
};

}  // namespace

std::string_view doc_of(std::string_view kind, std::string_view parameter) {
  const std::pair key(kind, parameter);
  const auto* found = std::ranges::lower_bound(
      kDocs, key, {}, [](const Doc& doc) { return std::pair(doc.kind, doc.parameter); });
  const bool is_there =
      found != std::end(kDocs) && found->kind == kind && found->parameter == parameter;
  return is_there ? found->text : std::string_view();
}

}  // namespace etude::kinds
