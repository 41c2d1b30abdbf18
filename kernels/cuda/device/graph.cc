// Recording and replay: CUDA graphs of the compute stream.
#include "kernels/cuda/device/handle.h"
#include "kernels/cuda/device/stream.h"

namespace trireme::cuda {
namespace {

class Graph {
 public:
  explicit Graph(cudaGraph_t recorded) {
    const cudaError_t result = cudaGraphInstantiateWithFlags(&graph_, recorded, 0);
    check_noexcept(cudaGraphDestroy(recorded), "cudaGraphDestroy");
    check(result, "making a graph of a recorded step");
  }
  ~Graph() { check_noexcept(cudaGraphExecDestroy(graph_), "cudaGraphExecDestroy"); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(cudaStream_t stream) const {
    check(cudaGraphLaunch(graph_, stream), "starting a recorded step");
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

void begin_capture(const KernelContext& exec) {
  // Relaxed, because memory pools may grow while a step is recorded, and other threads continue their own
  // work.
  check(cudaStreamBeginCapture(stream_of(exec).get(), cudaStreamCaptureModeRelaxed), "recording a step");
}

std::shared_ptr<void> end_capture(const KernelContext& exec) {
  cudaGraph_t recorded = nullptr;
  check(cudaStreamEndCapture(stream_of(exec).get(), &recorded), "recording a step");
  return std::make_shared<Graph>(recorded);
}

void launch_graph(const KernelContext& exec, const std::shared_ptr<void>& graph) {
  static_cast<const Graph*>(graph.get())->launch(stream_of(exec).get());
}

}  // namespace trireme::cuda
