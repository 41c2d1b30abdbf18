// Measured algorithm choices for a job's matrix products, valid for one card and library version. They are
// sent to other ranks and stored in checkpoints and the output folder as JSON.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/backend_products.h"

namespace trireme {

/// Named as in arithmetic_of(): {"cuBLASLt": "13.1.0", ...}.
using ProductFacts = std::map<std::string, std::string>;

struct MeasuredProducts {
  ProductFacts facts;    // of card and library
  ProductTable choices;  // empty: heuristics choose
  bool operator==(const MeasuredProducts&) const = default;
};

/// The facts that the choices depend on, out of all facts of a rank.
ProductFacts product_facts(const ProductFacts& all);

/// Includes a checksum.
nlohmann::json to_json(const MeasuredProducts& products);
/// Throws Error(kInvalidInput) with the problem.
MeasuredProducts products_of(const nlohmann::json& json);

/// Atomic.
void write_products(const std::filesystem::path& file, const MeasuredProducts& products);
/// Throws Error(kInvalidInput) with the path, the problem and what to do.
MeasuredProducts read_products(const std::filesystem::path& file);

/// "14 products measured, 3 of them faster than the heuristics' choice, by up to 11.0 %".
std::string describe(const ProductTable& choices);
/// "bf16 NT [...] to fp32: 41.2 us with proposal 3 of 9 (id 66, ...), 47.0 us with the first: 12.3 % less".
std::string describe(const Product& product, const ProductChoice& choice);

}  // namespace trireme
