#include "parallel/foresee/roofline.h"

#include <algorithm>

namespace trireme {
namespace {

bool are_equal(const RooflineRow& a, const RooflineRow& b) {
  return a.spent == b.spent && a.op == b.op && a.operands == b.operands && a.cost == b.cost;
}

void add(std::vector<RooflineRow>& rows, const OpCall& call) {
  RooflineRow row{call.spent, call.op, call.operands, call.cost, 1};
  const auto same =
      std::ranges::find_if(rows, [&row](const RooflineRow& other) { return are_equal(row, other); });
  if (same == rows.end())
    rows.push_back(std::move(row));
  else
    ++same->num_calls;
}

bool make_equal_calls(const RooflinePart& a, const RooflinePart& b) {
  return std::ranges::equal(a.rows, b.rows, [](const RooflineRow& x, const RooflineRow& y) {
    return are_equal(x, y) && x.num_calls == y.num_calls;
  });
}

void add(OpCost& sum, const OpCost& cost, std::int64_t times) {
  sum.bytes += cost.bytes * static_cast<double>(times);
  sum.operations += cost.operations * static_cast<double>(times);
}

}  // namespace

double roofline_seconds(const OpCost& cost, const CardRates& card) {
  const double moving = cost.bytes / (kBandwidthShare * card.bytes_per_s);
  if (cost.arithmetic == Arithmetic::kNone) return moving;
  const double rate = card.operations_per_s[static_cast<std::size_t>(cost.arithmetic)];
  return std::max(moving, cost.operations / (kArithmeticShare * rate));
}

OpCost RooflinePart::cost() const {
  OpCost sum;
  for (const RooflineRow& row : rows) add(sum, row.cost, row.num_calls);
  return sum;
}

double RooflinePart::seconds(const CardRates& card) const {
  double sum = 0.0;
  for (const RooflineRow& row : rows) {
    sum += roofline_seconds(row.cost, card) * static_cast<double>(row.num_calls);
  }
  return sum;
}

OpCost Roofline::cost() const {
  OpCost sum;
  for (const RooflinePart& part : parts) add(sum, part.cost(), part.num_units());
  return sum;
}

double Roofline::seconds(const CardRates& card) const {
  double sum = 0.0;
  for (const RooflinePart& part : parts) sum += part.seconds(card) * static_cast<double>(part.num_units());
  return sum;
}

const RooflinePart& Roofline::block() const {
  return *std::ranges::max_element(parts, {}, [](const RooflinePart& part) { return part.units.size(); });
}

Roofline make_roofline(const StepCalls& step) {
  std::vector<RooflinePart> by_unit(step.unit_names.size() + 1);  // the whole model is last
  for (std::size_t u = 0; u < step.unit_names.size(); ++u) by_unit[u].units = {step.unit_names[u]};
  for (const OpCall& call : step.calls) {
    add((call.unit < 0 ? by_unit.back() : by_unit[static_cast<std::size_t>(call.unit)]).rows, call);
  }
  Roofline roofline;
  for (RooflinePart& part : by_unit) {
    const auto same = std::ranges::find_if(roofline.parts, [&part](const RooflinePart& other) {
      return !part.units.empty() && make_equal_calls(part, other);
    });
    if (same == roofline.parts.end())
      roofline.parts.push_back(std::move(part));
    else
      same->units.push_back(part.units[0]);
  }
  return roofline;
}

}  // namespace trireme
