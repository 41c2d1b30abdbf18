#include "launcher/train/product_measurement.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "launcher/host/agreement.h"
#include "launcher/host/device.h"
#include "launcher/job/build.h"
#include "parallel/foresee/product_measure.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

constexpr const char* kOtherBits = "last bits may differ from those of a run that was not interrupted";

std::string text_of(const ProductFacts& facts) {
  std::string text;
  for (const auto& [name, value] : facts)
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", name, value);
  return text;
}

// Choices that need no measurement. The checkpoint comes first, because its run computed with them.
ProductTable known_choices(const TrainingRun& run, const ProductFacts& facts) {
  MeasuredProducts found = run.resumed.products;
  std::string source = run.resume_folder.string();
  if (found.choices.empty()) {
    if (!run.resume_folder.empty()) {
      log_warning(fmt::format("parallel.tune_products: {} is of a run without it: {}", source, kOtherBits));
    }
    if (!std::filesystem::exists(run.out.products())) return {};
    source = run.out.products().string();
    found = read_products(run.out.products());
  }
  if (found.facts == facts) return found.choices;
  log_warning(
      fmt::format("the products of {} were measured with another card or library ({}, now {}); they are "
                  "measured again: {}",
                  source, text_of(found.facts), text_of(facts), kOtherBits));
  return {};
}

}  // namespace

void choose_products(TrainingRun& run) {
  const JobConfig& config = run.options.config;
  const bool offers_choice = backend_for(run.options.device.type).product_choices != nullptr;
  if (!config.parallel.tune_products || !offers_choice) {
    if (!run.is_first()) return;
    if (config.parallel.tune_products) {
      log_warning(
          fmt::format("parallel.tune_products = true has no effect on {}", name(run.options.device.type)));
    }
    if (!run.resumed.products.choices.empty()) {
      log_warning(fmt::format("{} is of a run with parallel.tune_products on {}; here heuristics choose: {}",
                              run.resume_folder.string(), text_of(run.resumed.products.facts), kOtherBits));
    }
    return;
  }
  MeasuredProducts products{.facts = product_facts(run.options.arithmetic), .choices = {}};
  run_stage(run.comm(), [&] {
    if (!run.is_first()) return;
    products.choices = measure_products(
        planned_job(counted_on(config, run.options.device.type), run.options.blocks, run.comm().size()),
        {.device = run.options.device,
         .threads = run.engine_options.threads,
         .known = known_choices(run, products.facts)});
    write_products(run.out.products(), products);
  });
  const std::string text = text_of_rank(run.comm(), 0, run.is_first() ? to_json(products).dump() : "");
  run_stage(run.comm(), [&] { products = products_of(parse_json(text)); });
  run.engine_options.products = std::make_shared<const ProductTable>(products.choices);
  run.products = std::move(products);
}

}  // namespace trireme
