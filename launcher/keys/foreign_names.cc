#include "launcher/keys/foreign_names.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

namespace trireme {
namespace {

constexpr std::string_view kOfEpochs = "steps = epochs x samples / train.global_batch";
constexpr std::string_view kOfRatio = "in steps: ratio x train.steps";
constexpr std::string_view kOfAccumulation =
    "a data rank accumulates global_batch / (micro_batch x data ranks) micro-batches";
constexpr std::string_view kPerRank = "samples of a rank at a time; train.global_batch is the whole step's";
constexpr std::string_view kWholeStep =
    "samples of a step over all ranks; train.micro_batch is a rank's at a time";
constexpr std::string_view kBothBetas = "both as a list, as [0.9, 0.95]";
constexpr std::string_view kFp16 = "mode = \"fp16\"";
constexpr std::string_view kBf16 = "mode = \"bf16\"";
constexpr std::string_view kModeWord = "one of \"fp32\", \"tf32\", \"bf16\", \"fp16\", \"fp8\"";
constexpr std::string_view kRecompute = "recompute_every = 1 recomputes each block";
constexpr std::string_view kFullySharded = "zero = 3 shards parameters, gradients and optimizer state";
constexpr std::string_view kZeroStage = "the stage, 0 to 3";
constexpr std::string_view kOffload = "offload = \"optimizer\"";
constexpr std::string_view kByRanks =
    "data ranks = ranks / parallel.pipeline / parallel.tensor: start with mpirun -np N";
constexpr std::string_view kOutOption = "use the option --out of the command line";
constexpr std::string_view kPrepare = "`trireme data text --tokenizer` prepares the data";

constexpr ForeignName kForeignNames[] = {
    {"max_steps total_steps num_steps num_train_steps num_training_steps total_num_steps "
     "training_steps train_steps train_iters max_iters max_iter num_iters iterations "
     "num_iterations",
     "train.steps", ""},
    {"epochs epoch num_epochs n_epochs max_epochs num_train_epochs", "train.steps", kOfEpochs},
    {"train_samples", "train.steps", "steps = samples / train.global_batch"},
    {"max_time", "train.max_minutes", "in minutes"},
    {"batch_size batchsize train_batch_size total_batch_size effective_batch_size", "train.global_batch",
     kWholeStep},
    {"global_batch_size", "train.global_batch", ""},
    {"micro_batch_size microbatch microbatch_size train_micro_batch_size_per_gpu", "train.micro_batch", ""},
    {"device_batch_size per_device_train_batch_size per_gpu_train_batch_size "
     "per_device_batch_size",
     "train.micro_batch", kPerRank},
    {"per_device_eval_batch_size eval_batch_size", "train.micro_batch", "evaluations use it, too"},
    {"gradient_accumulation_steps gradient_accumulation grad_accumulation_steps "
     "accumulation_steps accumulate_grad_batches grad_accum_steps grad_accum "
     "num_microbatches",
     "train.global_batch", kOfAccumulation},
    {"random_seed manual_seed data_seed seed", "train.seed", ""},
    {"eval_steps eval_interval evaluation_strategy eval_strategy val_check_interval "
     "check_val_every_n_epoch",
     "train.eval_every", "steps between two evaluations"},
    {"eval_iters limit_val_batches", "train.eval_batches", ""},
    {"ema_decay", "train.ema", "the decay, as 0.999"},
    {"freeze_layers", "train.freeze", "patterns of parameters"},
    {"r lora_r lora_rank", "train.lora.rank", ""},
    {"lora_alpha", "train.lora.alpha", ""},
    {"use_rslora rslora", "train.lora.rank_stabilized", ""},
    {"target_modules lora_target_modules", "train.lora.targets", ""},
    {"load_in_4bit bnb_4bit_quant_type", "train.lora.quantize", "\"nf4\""},
    {"lora_dropout", "", "adapters have no dropout of their own"},
    {"early_stopping_patience", "", "a run ends after train.steps, or train.max_minutes"},
    {"push_to_hub", "", "`trireme export --format hf` writes a folder to upload"},
    {"learning_rate lr base_lr init_lr initial_lr peak_lr eta", "optimizer.lr", ""},
    {"max_lr", "optimizer.lr", "the peak"},
    {"min_learning_rate lr_min eta_min end_lr", "optimizer.min_lr", ""},
    {"optim optimizer optimizer_name optimizer_type", "optimizer.name", ""},
    {"weightdecay weight_decay wd l2", "optimizer.weight_decay", ""},
    {"beta1 beta2 beta_1 beta_2 adam_beta1 adam_beta2 adam_betas", "optimizer.betas", kBothBetas},
    {"eps adam_eps adam_epsilon", "optimizer.epsilon", ""},
    {"sgd_momentum", "optimizer.momentum", ""},
    {"max_grad_norm grad_norm_clip grad_clip_norm clip_grad clip_grad_norm gradient_clip "
     "gradient_clipping gradient_clip_val",
     "optimizer.grad_clip", ""},
    {"scheduler lr_scheduler lr_scheduler_type lr_schedule lr_decay_style", "optimizer.schedule", ""},
    {"decay_lr", "optimizer.schedule", "\"constant\" does not decay"},
    {"warmup", "optimizer.warmup_steps", "in steps"},
    {"warmup_iters num_warmup_steps lr_warmup_iters lr_warmup_steps warmup_num_steps",
     "optimizer.warmup_steps", ""},
    {"warmup_ratio warmup_fraction lr_warmup_fraction", "optimizer.warmup_steps", kOfRatio},
    {"warmup_epochs", "optimizer.warmup_steps", "steps = epochs x samples / train.global_batch"},
    {"lr_decay_iters", "train.steps",
     "the learning rate comes down over all steps; \"wsd\" has optimizer.decay_steps"},
    {"num_decay_steps", "optimizer.decay_steps", ""},
    {"fp16 float16 half", "precision.mode", kFp16},
    {"bf16 bfloat16", "precision.mode", kBf16},
    {"tf32 allow_tf32", "precision.mode", "mode = \"tf32\""},
    {"fp8", "precision.mode", "mode = \"fp8\""},
    {"amp use_amp autocast mixed_precision precision dtype torch_dtype fp16_opt_level", "precision.mode",
     kModeWord},
    {"grad_scaler", "precision.loss_scale", ""},
    {"init_scale initial_loss_scale", "precision.scale_init", ""},
    {"initial_scale_power", "precision.scale_init", "the scale itself, 2^power"},
    {"growth_factor", "precision.scale_growth", ""},
    {"backoff_factor", "precision.scale_backoff", ""},
    {"growth_interval loss_scale_window", "precision.scale_interval", ""},
    {"min_loss_scale", "precision.min_scale", ""},
    {"hysteresis", "", "each step whose gradient is not finite lowers the scale"},
    {"gradient_checkpointing activation_checkpointing checkpoint_activations", "parallel.recompute_every",
     kRecompute},
    {"recompute_granularity", "parallel.recompute", "\"selective\"; whole blocks: parallel.recompute_every"},
    {"recompute_num_layers", "parallel.recompute_every", ""},
    {"fsdp fully_sharded sharding_strategy", "parallel.zero", kFullySharded},
    {"zero_stage stage zero_optimization", "parallel.zero", kZeroStage},
    {"use_distributed_optimizer", "parallel.zero", "zero = 1 shards optimizer state"},
    {"reshard_after_forward", "parallel.keep_gathered", "the opposite"},
    {"cpu_offload offload_optimizer", "parallel.offload", kOffload},
    {"tp tp_size tensor_parallel tensor_parallel_size tensor_model_parallel_size", "parallel.tensor", ""},
    {"pp pp_size pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size "
     "num_stages",
     "parallel.pipeline", ""},
    {"pipeline_schedule", "parallel.schedule", ""},
    {"virtual_pipeline_model_parallel_size", "parallel.chunks", ""},
    {"sequence_parallel", "parallel.sequence", ""},
    {"context_parallel_size", "", "the sequence is shared by tensor ranks alone: parallel.sequence"},
    {"dp data_parallel data_parallel_size world_size num_gpus gpus devices num_nodes "
     "nproc_per_node ddp",
     "", kByRanks},
    {"local_rank", "", "mpirun numbers the ranks"},
    {"strategy", "parallel.layout", "\"auto\" searches it; else parallel.zero, pipeline and tensor"},
    {"accelerator", "parallel.device", ""},
    {"num_threads", "parallel.threads", ""},
    {"compile torch_compile", "", "kernels are compiled ahead, and parallel.cuda_graph records steps"},
    {"cuda_graphs", "parallel.cuda_graph", ""},
    {"ddp_timeout", "parallel.timeout_s", ""},
    {"save_steps save_interval save_every checkpoint_every checkpoint_interval "
     "every_n_train_steps",
     "checkpoint.every", ""},
    {"save_strategy", "checkpoint.every", "steps between two"},
    {"save_total_limit keep_last", "checkpoint.keep", ""},
    {"save_top_k", "checkpoint.keep", "the newest ones"},
    {"async_save", "checkpoint.background", ""},
    {"resume_from_checkpoint ckpt_path load", "checkpoint.resume", ""},
    {"logging_steps log_interval log_every log_every_n_steps steps_per_print", "log.every", ""},
    {"report_to", "log.tensorboard", "tensorboard = true; or log.prometheus, log.listen"},
    {"tensorboard_dir", "log.tensorboard", "tensorboard = true; its files lie in the output folder"},
    {"wandb", "log.tensorboard", "tensorboard = true writes event files"},
    {"output_dir out_dir save save_dir logging_dir default_root_dir run_name "
     "experiment_name dir",
     "", kOutOption},
    {"model_type architecture arch model_name", "model.name", ""},
    {"model_name_or_path", "model.from", "\"hf:FOLDER\" for the shape, model.init_from for the weights"},
    {"pretrained pretrained_model", "model.init_from", ""},
    {"checkpoint_path", "model.init_from", "weights; checkpoint.resume goes on with a run"},
    {"num_layers n_layers n_layer nlayers num_hidden_layers depth", "model.layers", ""},
    {"hidden_size hidden_dim d_model n_embd embed_dim nhid", "model.hidden", ""},
    {"emsize embedding_dim", "model.embedding_size", ""},
    {"num_attention_heads num_heads n_heads n_head", "model.heads", ""},
    {"num_key_value_heads n_kv_heads num_query_groups", "model.kv_heads", ""},
    {"head_dim kv_channels", "model.head_width", ""},
    {"intermediate_size ffn_hidden_size ffn_dim d_ff", "model.ffn", ""},
    {"vocab_size n_vocab", "model.vocab", ""},
    {"block_size seq_length sequence_length max_seq_length max_seq_len max_length "
     "context_length n_positions n_ctx max_position_embeddings bptt",
     "model.seq_len", ""},
    {"tie_word_embeddings tie_embeddings", "model.tied", ""},
    {"num_labels num_classes", "model.classes", ""},
    {"patch_size", "model.patch", ""},
    {"drop_path drop_path_rate", "model.stochastic_depth", ""},
    {"hidden_dropout_prob attention_dropout attn_pdrop resid_pdrop", "model.dropout", ""},
    {"label_smoothing_factor", "model.label_smoothing", ""},
    {"layer_norm_eps layer_norm_epsilon rms_norm_eps norm_eps", "model.norm_epsilon", ""},
    {"rope_base", "model.rope_theta", ""},
    {"path train_file train_data train_path data_path data_dir dataset dataset_name", "data.train", ""},
    {"validation validation_file valid_data val_data val_path eval_data eval_file", "data.eval", ""},
    {"num_workers dataloader_num_workers", "data.workers", ""},
    {"mlm_probability", "data.mask_probability", ""},
    {"packing", "data.pack", ""},
    {"tokenizer tokenizer_name tokenizer_path", "", kPrepare},
};

constexpr std::pair<std::string_view, std::string_view> kSections[] = {
    {"training trainer training_args training_arguments run loop", "train"},
    {"lora peft", "train.lora"},
    {"optim optimization adam adamw scheduler lr_scheduler schedule", "optimizer"},
    {"amp fp16 bf16 mixed_precision", "precision"},
    {"deepspeed zero_optimization fsdp parallelism distributed mesh activation_checkpointing", "parallel"},
    {"dataset datasets dataloader", "data"},
    {"network architecture", "model"},
    {"checkpointing checkpoints save", "checkpoint"},
    {"logging logger logs wandb tensorboard monitoring", "log"},
};

constexpr std::pair<std::string_view, std::string_view> kForeignWords[] = {
    {"gpu nvidia", "cuda"},
    {"half float16 16_mixed", "fp16"},
    {"float single float32 full", "fp32"},
};

std::string normal_form(std::string_view name) {
  while (name.starts_with('-')) name.remove_prefix(1);
  std::string normal(name);
  for (char& c : normal) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return normal;
}

/// True if the blank-separated list `names` contains `name`.
bool holds(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const auto end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

std::span<const ForeignName> foreign_names() {
  return kForeignNames;
}

const ForeignName* find_foreign_name(std::string_view name) {
  const std::string normal = normal_form(name);
  const auto found =
      std::ranges::find_if(kForeignNames, [&](const ForeignName& one) { return holds(one.names, normal); });
  return found == std::end(kForeignNames) ? nullptr : &*found;
}

std::string_view find_foreign_section(std::string_view section) {
  const std::string normal = normal_form(section);
  for (const auto& [names, ours] : kSections) {
    if (holds(names, normal)) return ours;
  }
  return "";
}

std::string_view find_foreign_word(std::string_view word) {
  const std::string normal = normal_form(word);
  for (const auto& [words, ours] : kForeignWords) {
    if (holds(words, normal)) return ours;
  }
  return "";
}

}  // namespace trireme
