#include "kernels/cuda/matmul/matmul_library.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn/repeated_call.h"
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/matmul/product_timing.h"
#include "kernels/cuda/quantize.h"
#include "kernels/product_workspace.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme::cuda {
namespace {

// See [Note: fp8 products].
bool takes_extents(const Product& p) {
  return !is_fp8(p.in) || takes_fp8_extents(p.m, p.n, p.k);
}

// For messages: the code that runs in place of a refused algorithm.
const char* successor(const Product& product, bool was_last) {
  if (!was_last) return "its next proposal runs";
  if (is_fused(product)) return "the product and the rest run one after the other";
  return is_fp8(product.in) ? "it runs in bf16" : "the slower native kernel runs";
}

int common_alignment(const ProductPointers& p, int most) {
  auto bits = static_cast<std::uintptr_t>(most);
  for (const void* pointer :
       {p.a, p.b, p.c, static_cast<const void*>(p.d), p.bias, static_cast<const void*>(p.aux)}) {
    bits |= reinterpret_cast<std::uintptr_t>(pointer);
  }
  return static_cast<int>(bits & -bits);
}

// The heuristics' first proposal, and all other proposals.
std::vector<MatmulPlan::Candidate> candidates_to_measure(MatmulPlan& plan) {
  std::vector<MatmulPlan::Candidate> all{plan.candidates().front()};
  const ProductAlgorithm first = words_of(all[0].algorithm);
  for (const MatmulPlan::Candidate& other : plan.choose_many()) {
    if (words_of(other.algorithm) != first) all.push_back(other);
  }
  return all;
}

void check_enqueued(cublasStatus_t status, const Product& product) {
  if (status == CUBLAS_STATUS_SUCCESS || is_refusal(status)) return;
  throw Error(ErrorCode::kRuntime, "cuda: {} failed: {}", text_of(product), cublasLtGetStatusString(status));
}

}  // namespace

MatmulLibrary::MatmulLibrary(const std::shared_ptr<Allocator>& allocator, ProductChoices& choices)
    : choices_(choices), workspace_(allocator, kMatmulWorkspaceBytes, MemoryCategory::kWorkspace) {
  check_lt(cublasLtCreate(&handle_), "cublasLtCreate");
}

MatmulLibrary::~MatmulLibrary() {
  plans_.clear();
  if (cublasLtDestroy(handle_) != CUBLAS_STATUS_SUCCESS) log_warning("cuda: cublasLtDestroy failed");
}

void MatmulLibrary::measure(cudaStream_t stream, MatmulPlan& plan, const Product& product,
                            const ProductPointers& pointers) {
  const std::vector<MatmulPlan::Candidate> all = candidates_to_measure(plan);
  const auto run = [&](int i) {
    const cublasStatus_t status =
        plan.enqueue(stream, all[static_cast<std::size_t>(i)], pointers, workspace_.data());
    check_enqueued(status, product);
    return status == CUBLAS_STATUS_SUCCESS;
  };
  const std::vector<double> times = times_in_turns(stream, static_cast<int>(all.size()), run);
  std::vector<int> order;  // algorithms that run, in the heuristics' order
  for (int i = 0; i < static_cast<int>(all.size()); ++i) {
    if (times[static_cast<std::size_t>(i)] > 0) order.push_back(i);
  }
  if (order.empty()) return;
  const auto us = [&](int i) { return times[static_cast<std::size_t>(i)]; };
  const int first = order[0];
  std::vector<int> faster;
  std::ranges::copy_if(order, std::back_inserter(faster),
                       [&](int i) { return us(i) < (1 - kProductMargin) * us(first); });
  std::ranges::stable_sort(faster, std::less(), us);
  const CallOutput result{pointers.d, static_cast<std::size_t>(product.m * product.n) *
                                          static_cast<std::size_t>(size_bytes(product.out))};
  const auto repeats = [&](int i) {
    const bool in_place = adds_in_place(all[static_cast<std::size_t>(i)].algorithm);
    return !in_place || repeats_its_bits(stream, {result}, [&] { return run(i); });
  };
  const auto taken = std::ranges::find_if(faster, repeats);
  const int chosen = taken == faster.end() ? first : *taken;
  const cublasLtMatmulAlgo_t& algorithm = all[static_cast<std::size_t>(chosen)].algorithm;
  choices_.add(product, {.algorithm = words_of(algorithm),
                         .description = describe(algorithm),
                         .candidate = static_cast<int>(std::ranges::find(order, chosen) - order.begin()),
                         .num_candidates = static_cast<int>(order.size()),
                         .us = us(chosen),
                         .first_us = us(first)});
}

// Puts the measured choice first, if the library accepts it.
void MatmulLibrary::follow_choice(cudaStream_t stream, MatmulPlan& plan, const Product& product,
                                  const ProductPointers& pointers) {
  if (!choices_.is_active() || plan.candidates().empty()) return;
  const ProductChoice* choice = choices_.find(product);
  if (choice == nullptr && choices_.measures()) {
    measure(stream, plan, product, pointers);
    choice = choices_.find(product);
  }
  if (choice == nullptr) return;
  const std::string problem = plan.prefer(choice->algorithm);
  if (problem.empty()) return;
  log_warning(
      fmt::format("cuda: cuBLASLt does not take the measured algorithm ({}) of {} ({}); its heuristics "
                  "choose, and last bits may differ",
                  choice->description, text_of(product), problem));
}

MatmulPlan& MatmulLibrary::plan_for(cudaStream_t stream, const Product& product,
                                    const ProductPointers& pointers) {
  std::unique_ptr<MatmulPlan>& plan = plans_[product];
  if (!plan) {
    expect_no_capture(stream, text_of(product));
    auto fresh = std::make_unique<MatmulPlan>(handle_, product);
    fresh->set_pointers(pointers);
    fresh->choose();
    if (fresh->candidates().empty() && !is_fused(product)) {
      log_warning(fmt::format("cuda: cuBLASLt has no algorithm for {}; {}", text_of(product),
                              successor(product, /*was_last=*/true)));
    }
    follow_choice(stream, *fresh, product, pointers);
    plan = std::move(fresh);
  }
  return *plan;
}

bool MatmulLibrary::run(cudaStream_t stream, Product product, const ProductPointers& pointers) {
  if (!takes_extents(product)) {
    if (!is_fused(product)) {
      slow_paths_.tell(text_of(product) + ", extents that are no multiples of 16",
                       successor(product, /*was_last=*/true));
    }
    return false;
  }
  constexpr int kMostAlignment = 256;
  product.alignment = common_alignment(pointers, choices_.is_active() ? kMeasuredAlignment : kMostAlignment);
  MatmulPlan& plan = plan_for(stream, product, pointers);
  plan.set_pointers(pointers);
  while (!plan.candidates().empty()) {
    const cublasStatus_t status =
        plan.enqueue(stream, plan.candidates().front(), pointers, workspace_.data());
    if (status == CUBLAS_STATUS_SUCCESS) return true;
    check_enqueued(status, product);
    plan.candidates().pop_front();
    log_warning(fmt::format("cuda: cuBLASLt refused to run {} ({}); {}", text_of(product),
                            cublasLtGetStatusString(status), successor(product, plan.candidates().empty())));
  }
  return false;
}

}  // namespace trireme::cuda
