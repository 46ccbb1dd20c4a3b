#include "frontends/domains/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/domains/workload_kinds.h"
#include "frontends/models/texts/text_models.h"

namespace gemel::cli {

bool takes_texts(std::string_view model) {
  const auto names = models::text_names();
  return std::ranges::find(names, model) != names.end();
}

std::string Workload::extent() const { return fmt::format("{} samples, {} classes", train_data().size(), train_data().classes()); }

bool is_language_model(std::string_view model) { return takes_texts(model) && models::text_kind(model) == models::TextKind::language_model; }
bool is_translator(std::string_view model) { return takes_texts(model) && models::text_kind(model) == models::TextKind::translator; }

std::unique_ptr<Workload> make_workload(const WorkloadOptions& options) {
  if (options.ratings) return ratings_workload(options);
  if (options.speech) return speech_workload(options);
  if (!options.text) return picture_workload(options);
  if (is_translator(options.model)) return translation_workload(options);
  return is_language_model(options.model) ? language_workload(options) : text_workload(options);
}

}  // namespace gemel::cli
