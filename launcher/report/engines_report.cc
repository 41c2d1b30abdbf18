#include "launcher/report/engines_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/render/text_table.h"
#include "launcher/state/measured_products.h"

namespace trireme {

nlohmann::ordered_json to_json(const CallTime& time) {
  nlohmann::ordered_json json = {{"call", time.op},
                                 {"operands", time.operands},
                                 {"pass", name(time.spent)},
                                 {"calls", time.num_calls},
                                 {"bytes", time.cost.bytes},
                                 {"operations", time.cost.operations},
                                 {"first_ms", time.first_ms},
                                 {"us", time.us},
                                 {"workspace_bytes", time.workspace_bytes}};
  if (time.unfused_us > 0) json["unfused_us"] = time.unfused_us;
  for (const CardRates& card : kCards) {
    json["roofline_us"][std::string(card.name)] = 1e6 * roofline_seconds(time.cost, card);
  }
  json["notes"] = time.notes;
  if (!time.products.empty())
    json["products"] = to_json(MeasuredProducts{.facts = {}, .choices = time.products})["products"];
  return json;
}

std::string to_text(std::vector<CallTime> times) {
  std::ranges::stable_sort(times, std::ranges::greater(), [](const CallTime& time) {
    return time.us * static_cast<double>(time.num_calls);
  });
  TextRows rows{{"call", "operands", "n", "first ms", "us", "GB/s", "TFLOP/s", "workspace"}};
  std::string notes;
  double step_us = 0;
  for (const CallTime& time : times) {
    step_us += time.us * static_cast<double>(time.num_calls);
    const auto rate = [&time](double amount, double unit) {
      return amount == 0 || time.us == 0 ? "-" : fmt::format("{:.3g}", amount / unit / (time.us * 1e-6));
    };
    rows.push_back({time.op, time.operands, std::to_string(time.num_calls),
                    fmt::format("{:.2f}", time.first_ms), fmt::format("{:.1f}", time.us),
                    rate(time.cost.bytes, 1e9), rate(time.cost.operations, 1e12),
                    short_bytes(time.workspace_bytes)});
    for (const auto& [product, choice] : time.products) notes += wrapped(describe(product, choice));
    for (const std::string& note : time.notes) {
      notes += wrapped(fmt::format("{} {}: {}", time.op, time.operands, note));
    }
  }
  return to_text(std::move(rows), {.num_left = 2, .num_kept = 5, .most_rows = 1000}) + notes +
         fmt::format("all calls of a step, one by one: {:.2f} ms\n", step_us * 1e-3);
}

}  // namespace trireme
