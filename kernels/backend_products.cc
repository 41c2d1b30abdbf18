#include "kernels/backend_products.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/base/log.h"

namespace trireme {

std::string to_string(const Product& product) {
  const auto letter = [](Transpose transpose) { return transpose == Transpose::kYes ? 'T' : 'N'; };
  std::string text =
      fmt::format("{} {}{} [{} x {} x {}] to {}", name(product.in), letter(product.transpose_a),
                  letter(product.transpose_b), product.m, product.n, product.k, name(product.out));
  if (product.epilogue != Epilogue::kNone) {
    text += fmt::format(", {}", kEpilogueNames[static_cast<std::size_t>(product.epilogue)]);
  }
  return product.add_c ? text + ", added" : text;
}

void ProductChoices::use(ProductTable table) {
  table_ = std::move(table);
  uses_ = true;
}

const ProductChoice* ProductChoices::find(const Product& product) {
  const auto found = table_.find(product);
  if (found != table_.end()) return &found->second;
  if (uses_ && !measures_ && !std::exchange(told_, true)) {
    log_info(fmt::format(
        "no measured choice for the product {}, and maybe others: the library's heuristics choose",
        to_string(product)));
  }
  return nullptr;
}

void ProductChoices::add(const Product& product, ProductChoice choice) {
  table_.insert_or_assign(product, std::move(choice));
}

}  // namespace trireme
