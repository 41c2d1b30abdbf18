// The minimum time of a step on a card, if each call ran at a good share of the card's data-sheet rates: the
// number to beat (Williams et al. 2009).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "parallel/foresee/op_calls.h"

namespace trireme {

/// Data-sheet rates, dense, SXM.
struct CardRates {
  std::string_view name;
  double bytes_per_s = 0.0;
  std::array<double, kNumArithmetics> operations_per_s{};  // by Arithmetic; kNone: unused
};

inline constexpr std::array<double, kNumArithmetics> kHopperOperations = {0.0,      67e12,  494.5e12 / 3,
                                                                          494.5e12, 989e12, 1979e12};
inline constexpr std::array<CardRates, 2> kCards = {
    {{"H100", 3.35e12, kHopperOperations}, {"H200", 4.8e12, kHopperOperations}}};

/// Shares of these rates that good kernels reach.
inline constexpr double kBandwidthShare = 0.9, kArithmeticShare = 0.8;

/// The longer of a call's time for bytes and its time for operations. Its launch costs nothing.
double roofline_seconds(const OpCost& cost, const CardRates& card);

/// Equal calls of a unit.
struct RooflineRow {
  TimeSpent spent = TimeSpent::kForward;
  std::string_view op;
  std::string operands;
  OpCost cost;                 // of one call
  std::int64_t num_calls = 0;  // per unit and step
};

/// Units that make equal calls; without units, the calls of a step for the whole model.
struct RooflinePart {
  std::vector<std::string> units;  // their names
  std::vector<RooflineRow> rows;   // in the order of their first calls

  std::int64_t num_units() const {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(units.size()));
  }
  OpCost cost() const;  // of one unit; `arithmetic` is kNone
  double seconds(const CardRates& card) const;
};

struct Roofline {
  std::vector<RooflinePart> parts;  // ordered by first unit; the whole model last

  OpCost cost() const;  // of a step
  double seconds(const CardRates& card) const;
  /// The part with the most units: the model's repeated block.
  const RooflinePart& block() const;
};

Roofline make_roofline(const StepCalls& step);

}  // namespace trireme
