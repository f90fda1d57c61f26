// Written by scripts/contracts.mjs from src/engine/native/lower/commands.ts and src/base/dtype.ts. Do not edit.
#pragma once

enum {
  CMD_END,
  CMD_CONFIG,
  CMD_ALLOC,
  CMD_FREE,
  CMD_MATMUL,
  CMD_JOIN_PART,
  CMD_JOIN_GRAD_PART,
  CMD_ADD,
  CMD_MUL,
  CMD_SCALE,
  CMD_SUM_ROWS,
  CMD_SUM_COLUMNS,
  CMD_GELU,
  CMD_GELU_GRAD,
  CMD_SWIGLU,
  CMD_SWIGLU_GRAD,
  CMD_LAYER_NORM,
  CMD_LAYER_NORM_INPUT_GRAD,
  CMD_LAYER_NORM_WEIGHT_GRAD,
  CMD_RMS_NORM,
  CMD_RMS_NORM_INPUT_GRAD,
  CMD_RMS_NORM_WEIGHT_GRAD,
  CMD_ROPE,
  CMD_ATTENTION,
  CMD_ATTENTION_MERGE,
  CMD_ATTENTION_GRAD,
  CMD_DROPOUT,
  CMD_EMBED,
  CMD_EMBED_GRAD,
  CMD_MAX_COLUMNS,
  CMD_SUM_EXP,
  CMD_PICK,
  CMD_TOKEN_LOSS,
  CMD_TOKEN_LOSS_GRAD,
  CMD_COUNT_LABELS,
  CMD_SQUARED_ERROR,
  CMD_SQUARED_ERROR_GRAD,
  CMD_FILL,
  CMD_ACCUMULATE,
  CMD_SUM_SQUARES,
  CMD_ADAMW,
  CMD_SGD,
  CMD_COPY,
  CMD_START,
  CMD_WAIT_ALL_REDUCE,
  CMD_WAIT_ALL_GATHER,
  CMD_WAIT_REDUCE_SCATTER,
  CMD_WAIT_ALL_TO_ALL,
  CMD_WAIT_SHIFT,
  CMD_SEND,
  CMD_WAIT_RECV,
  CMD_WAIT_SEND,
  CMD_BARRIER,
  CMD_COPY_BYTES,
  CMD_RECV,
  CMD_WAIT_SEVERAL,
  CMD_COUNT
};

// The words of each command.
#define CONFIG_ABORT 0
#define CONFIG_TIMEOUT_MS 1
#define CONFIG_SPIN 2
#define CONFIG_YIELDS 3
#define CONFIG_SPANS 4
#define CONFIG_SPAN_CAPACITY 5
#define CONFIG_WORKSPACE 6
#define CONFIG_WORKSPACE_BYTES 7
#define ALLOC_KIND 0
#define ALLOC_BYTES 1
#define FREE_KIND 0
#define FREE_BYTES 1
#define MATMUL_OUT 0
#define MATMUL_A 1
#define MATMUL_B 2
#define MATMUL_BIAS 3
#define MATMUL_ADD 4
#define MATMUL_M 5
#define MATMUL_N 6
#define MATMUL_K 7
#define MATMUL_TRANS_A 8
#define MATMUL_TRANS_B 9
#define MATMUL_BATCH 10
#define MATMUL_STRIDE_A 11
#define MATMUL_STRIDE_B 12
#define MATMUL_STRIDE_OUT 13
#define JOIN_PART_OUT 0
#define JOIN_PART_X 1
#define JOIN_PART_ROWS 2
#define JOIN_PART_REPEATS 3
#define JOIN_PART_COLUMNS 4
#define JOIN_PART_STRIDE 5
#define JOIN_GRAD_PART_OUT 0
#define JOIN_GRAD_PART_X 1
#define JOIN_GRAD_PART_ROWS 2
#define JOIN_GRAD_PART_REPEATS 3
#define JOIN_GRAD_PART_COLUMNS 4
#define JOIN_GRAD_PART_STRIDE 5
#define ADD_OUT 0
#define ADD_A 1
#define ADD_B 2
#define ADD_N 3
#define ADD_PERIOD 4
#define MUL_OUT 0
#define MUL_A 1
#define MUL_B 2
#define MUL_N 3
#define MUL_PERIOD 4
#define SCALE_OUT 0
#define SCALE_X 1
#define SCALE_N 2
#define SCALE_BY 3
#define SUM_ROWS_OUT 0
#define SUM_ROWS_X 1
#define SUM_ROWS_ROWS 2
#define SUM_ROWS_COLUMNS 3
#define SUM_COLUMNS_OUT 0
#define SUM_COLUMNS_X 1
#define SUM_COLUMNS_ROWS 2
#define SUM_COLUMNS_COLUMNS 3
#define GELU_Y 0
#define GELU_X 1
#define GELU_N 2
#define GELU_APPROXIMATE 3
#define GELU_GRAD_DX 0
#define GELU_GRAD_DY 1
#define GELU_GRAD_X 2
#define GELU_GRAD_N 3
#define GELU_GRAD_APPROXIMATE 4
#define SWIGLU_Y 0
#define SWIGLU_GATE 1
#define SWIGLU_UP 2
#define SWIGLU_N 3
#define SWIGLU_GRAD_DGATE 0
#define SWIGLU_GRAD_DUP 1
#define SWIGLU_GRAD_DY 2
#define SWIGLU_GRAD_GATE 3
#define SWIGLU_GRAD_UP 4
#define SWIGLU_GRAD_N 5
#define LAYER_NORM_Y 0
#define LAYER_NORM_X 1
#define LAYER_NORM_GAIN 2
#define LAYER_NORM_BIAS 3
#define LAYER_NORM_ROWS 4
#define LAYER_NORM_COLUMNS 5
#define LAYER_NORM_EPS 6
#define LAYER_NORM_INPUT_GRAD_DX 0
#define LAYER_NORM_INPUT_GRAD_DY 1
#define LAYER_NORM_INPUT_GRAD_X 2
#define LAYER_NORM_INPUT_GRAD_GAIN 3
#define LAYER_NORM_INPUT_GRAD_ROWS 4
#define LAYER_NORM_INPUT_GRAD_COLUMNS 5
#define LAYER_NORM_INPUT_GRAD_EPS 6
#define LAYER_NORM_WEIGHT_GRAD_DGAIN 0
#define LAYER_NORM_WEIGHT_GRAD_DBIAS 1
#define LAYER_NORM_WEIGHT_GRAD_DY 2
#define LAYER_NORM_WEIGHT_GRAD_X 3
#define LAYER_NORM_WEIGHT_GRAD_ROWS 4
#define LAYER_NORM_WEIGHT_GRAD_COLUMNS 5
#define LAYER_NORM_WEIGHT_GRAD_EPS 6
#define RMS_NORM_Y 0
#define RMS_NORM_X 1
#define RMS_NORM_GAIN 2
#define RMS_NORM_ROWS 3
#define RMS_NORM_COLUMNS 4
#define RMS_NORM_EPS 5
#define RMS_NORM_INPUT_GRAD_DX 0
#define RMS_NORM_INPUT_GRAD_DY 1
#define RMS_NORM_INPUT_GRAD_X 2
#define RMS_NORM_INPUT_GRAD_GAIN 3
#define RMS_NORM_INPUT_GRAD_ROWS 4
#define RMS_NORM_INPUT_GRAD_COLUMNS 5
#define RMS_NORM_INPUT_GRAD_EPS 6
#define RMS_NORM_WEIGHT_GRAD_DGAIN 0
#define RMS_NORM_WEIGHT_GRAD_DY 1
#define RMS_NORM_WEIGHT_GRAD_X 2
#define RMS_NORM_WEIGHT_GRAD_ROWS 3
#define RMS_NORM_WEIGHT_GRAD_COLUMNS 4
#define RMS_NORM_WEIGHT_GRAD_EPS 5
#define ROPE_Y 0
#define ROPE_X 1
#define ROPE_BATCH 2
#define ROPE_SEQ 3
#define ROPE_HEADS 4
#define ROPE_HEAD_DIM 5
#define ROPE_INVERSE 6
#define ROPE_GROWTH 7
#define ROPE_ORIGIN 8
#define ROPE_UNTIL 9
#define ROPE_GAP 10
#define ATTENTION_OUT 0
#define ATTENTION_LSE 1
#define ATTENTION_BEFORE 2
#define ATTENTION_BEFORE_LSE 3
#define ATTENTION_Q 4
#define ATTENTION_K 5
#define ATTENTION_V 6
#define ATTENTION_BATCH 7
#define ATTENTION_QUERIES 8
#define ATTENTION_KEYS 9
#define ATTENTION_KV_HEADS 10
#define ATTENTION_GROUP 11
#define ATTENTION_HEAD_DIM 12
#define ATTENTION_VALUE_DIM 13
#define ATTENTION_SCALE 14
#define ATTENTION_WINDOW 15
#define ATTENTION_QUERY_ORIGIN 16
#define ATTENTION_QUERY_UNTIL 17
#define ATTENTION_QUERY_GAP 18
#define ATTENTION_KEY_ORIGIN 19
#define ATTENTION_KEY_UNTIL 20
#define ATTENTION_KEY_GAP 21
#define ATTENTION_POSITIONS 22
#define ATTENTION_RATE 23
#define ATTENTION_SEED 24
#define ATTENTION_NAME 25
#define ATTENTION_STEP 26
#define ATTENTION_BATCH_ORIGIN 27
#define ATTENTION_HEAD_ORIGIN 28
#define ATTENTION_GROUP_ORIGIN 29
#define ATTENTION_HEADS 30
#define ATTENTION_GROUPS 31
#define ATTENTION_MERGE_OUT 0
#define ATTENTION_MERGE_LSE 1
#define ATTENTION_MERGE_A 2
#define ATTENTION_MERGE_A_LSE 3
#define ATTENTION_MERGE_B 4
#define ATTENTION_MERGE_B_LSE 5
#define ATTENTION_MERGE_ROWS 6
#define ATTENTION_MERGE_COLUMNS 7
#define ATTENTION_GRAD_DQ 0
#define ATTENTION_GRAD_DK 1
#define ATTENTION_GRAD_DV 2
#define ATTENTION_GRAD_DOUT 3
#define ATTENTION_GRAD_Q 4
#define ATTENTION_GRAD_K 5
#define ATTENTION_GRAD_V 6
#define ATTENTION_GRAD_OUT 7
#define ATTENTION_GRAD_LSE 8
#define ATTENTION_GRAD_BATCH 9
#define ATTENTION_GRAD_QUERIES 10
#define ATTENTION_GRAD_KEYS 11
#define ATTENTION_GRAD_KV_HEADS 12
#define ATTENTION_GRAD_GROUP 13
#define ATTENTION_GRAD_HEAD_DIM 14
#define ATTENTION_GRAD_VALUE_DIM 15
#define ATTENTION_GRAD_SCALE 16
#define ATTENTION_GRAD_WINDOW 17
#define ATTENTION_GRAD_QUERY_ORIGIN 18
#define ATTENTION_GRAD_QUERY_UNTIL 19
#define ATTENTION_GRAD_QUERY_GAP 20
#define ATTENTION_GRAD_KEY_ORIGIN 21
#define ATTENTION_GRAD_KEY_UNTIL 22
#define ATTENTION_GRAD_KEY_GAP 23
#define ATTENTION_GRAD_POSITIONS 24
#define ATTENTION_GRAD_RATE 25
#define ATTENTION_GRAD_SEED 26
#define ATTENTION_GRAD_NAME 27
#define ATTENTION_GRAD_STEP 28
#define ATTENTION_GRAD_BATCH_ORIGIN 29
#define ATTENTION_GRAD_HEAD_ORIGIN 30
#define ATTENTION_GRAD_GROUP_ORIGIN 31
#define ATTENTION_GRAD_HEADS 32
#define ATTENTION_GRAD_GROUPS 33
#define DROPOUT_Y 0
#define DROPOUT_X 1
#define DROPOUT_N0 2
#define DROPOUT_N1 3
#define DROPOUT_N2 4
#define DROPOUT_BASE 5
#define DROPOUT_STRIDE0 6
#define DROPOUT_STRIDE1 7
#define DROPOUT_UNTIL 8
#define DROPOUT_GAP 9
#define DROPOUT_RATE 10
#define DROPOUT_SEED 11
#define DROPOUT_NAME 12
#define DROPOUT_STEP 13
#define EMBED_OUT 0
#define EMBED_IDS 1
#define EMBED_TABLE 2
#define EMBED_N 3
#define EMBED_ROWS 4
#define EMBED_COLUMNS 5
#define EMBED_ORIGIN 6
#define EMBED_GRAD_DTABLE 0
#define EMBED_GRAD_IDS 1
#define EMBED_GRAD_DOUT 2
#define EMBED_GRAD_N 3
#define EMBED_GRAD_ROWS 4
#define EMBED_GRAD_COLUMNS 5
#define EMBED_GRAD_ORIGIN 6
#define MAX_COLUMNS_OUT 0
#define MAX_COLUMNS_X 1
#define MAX_COLUMNS_ROWS 2
#define MAX_COLUMNS_COLUMNS 3
#define SUM_EXP_OUT 0
#define SUM_EXP_X 1
#define SUM_EXP_MAX 2
#define SUM_EXP_ROWS 3
#define SUM_EXP_COLUMNS 4
#define PICK_OUT 0
#define PICK_X 1
#define PICK_LABELS 2
#define PICK_ROWS 3
#define PICK_COLUMNS 4
#define PICK_ORIGIN 5
#define TOKEN_LOSS_LOSS 0
#define TOKEN_LOSS_MAX 1
#define TOKEN_LOSS_SUM_EXP 2
#define TOKEN_LOSS_PICKED 3
#define TOKEN_LOSS_LABELS 4
#define TOKEN_LOSS_N 5
#define TOKEN_LOSS_GRAD_DX 0
#define TOKEN_LOSS_GRAD_X 1
#define TOKEN_LOSS_GRAD_MAX 2
#define TOKEN_LOSS_GRAD_SUM_EXP 3
#define TOKEN_LOSS_GRAD_LABELS 4
#define TOKEN_LOSS_GRAD_COUNT 5
#define TOKEN_LOSS_GRAD_ROWS 6
#define TOKEN_LOSS_GRAD_COLUMNS 7
#define TOKEN_LOSS_GRAD_ORIGIN 8
#define COUNT_LABELS_COUNT 0
#define COUNT_LABELS_LABELS 1
#define COUNT_LABELS_N 2
#define SQUARED_ERROR_LOSS 0
#define SQUARED_ERROR_X 1
#define SQUARED_ERROR_TARGET 2
#define SQUARED_ERROR_N 3
#define SQUARED_ERROR_GRAD_DX 0
#define SQUARED_ERROR_GRAD_X 1
#define SQUARED_ERROR_GRAD_TARGET 2
#define SQUARED_ERROR_GRAD_COUNT 3
#define SQUARED_ERROR_GRAD_N 4
#define FILL_OUT 0
#define FILL_N 1
#define FILL_VALUE 2
#define ACCUMULATE_OUT 0
#define ACCUMULATE_X 1
#define ACCUMULATE_N 2
#define SUM_SQUARES_OUT 0
#define SUM_SQUARES_X 1
#define SUM_SQUARES_N 2
#define ADAMW_PARAM 0
#define ADAMW_M 1
#define ADAMW_V 2
#define ADAMW_GRAD 3
#define ADAMW_NORM_SQUARED 4
#define ADAMW_LR 5
#define ADAMW_STEP 6
#define ADAMW_N 7
#define ADAMW_BETA1 8
#define ADAMW_BETA2 9
#define ADAMW_EPS 10
#define ADAMW_WEIGHT_DECAY 11
#define ADAMW_CLIP 12
#define SGD_PARAM 0
#define SGD_M 1
#define SGD_GRAD 2
#define SGD_NORM_SQUARED 3
#define SGD_LR 4
#define SGD_N 5
#define SGD_MOMENTUM 6
#define SGD_WEIGHT_DECAY 7
#define SGD_CLIP 8
#define COPY_OUT 0
#define COPY_X 1
#define COPY_ROWS 2
#define COPY_COLUMNS 3
#define COPY_STRIDE_OUT 4
#define COPY_STRIDE_X 5
#define START_SYNC 0
#define START_ME 1
#define START_MEMBERS 2
#define START_COLLECTIVE 3
#define WAIT_ALL_REDUCE_SYNC 0
#define WAIT_ALL_REDUCE_ME 1
#define WAIT_ALL_REDUCE_MEMBERS 2
#define WAIT_ALL_REDUCE_COLLECTIVE 3
#define WAIT_ALL_REDUCE_N 4
#define WAIT_ALL_REDUCE_COMBINE 5
#define WAIT_ALL_REDUCE_DTYPE 6
#define WAIT_ALL_GATHER_SYNC 0
#define WAIT_ALL_GATHER_ME 1
#define WAIT_ALL_GATHER_MEMBERS 2
#define WAIT_ALL_GATHER_COLLECTIVE 3
#define WAIT_ALL_GATHER_OUTER 4
#define WAIT_ALL_GATHER_INNER_BYTES 5
#define WAIT_ALL_GATHER_ZIGZAG 6
#define WAIT_REDUCE_SCATTER_SYNC 0
#define WAIT_REDUCE_SCATTER_ME 1
#define WAIT_REDUCE_SCATTER_MEMBERS 2
#define WAIT_REDUCE_SCATTER_COLLECTIVE 3
#define WAIT_REDUCE_SCATTER_OUTER 4
#define WAIT_REDUCE_SCATTER_INNER 5
#define WAIT_REDUCE_SCATTER_ZIGZAG 6
#define WAIT_REDUCE_SCATTER_COMBINE 7
#define WAIT_REDUCE_SCATTER_DTYPE 8
#define WAIT_ALL_TO_ALL_SYNC 0
#define WAIT_ALL_TO_ALL_ME 1
#define WAIT_ALL_TO_ALL_MEMBERS 2
#define WAIT_ALL_TO_ALL_COLLECTIVE 3
#define WAIT_ALL_TO_ALL_OUTER 4
#define WAIT_ALL_TO_ALL_FIRST 5
#define WAIT_ALL_TO_ALL_MIDDLE 6
#define WAIT_ALL_TO_ALL_SECOND 7
#define WAIT_ALL_TO_ALL_INNER_BYTES 8
#define WAIT_ALL_TO_ALL_CUT_FIRST 9
#define WAIT_SHIFT_SYNC 0
#define WAIT_SHIFT_ME 1
#define WAIT_SHIFT_MEMBERS 2
#define WAIT_SHIFT_COLLECTIVE 3
#define WAIT_SHIFT_BYTES 4
#define WAIT_SHIFT_BY 5
#define SEND_SYNC 0
#define SEND_MESSAGE 1
#define WAIT_RECV_SYNC 0
#define WAIT_RECV_MESSAGE 1
#define WAIT_RECV_OUT 2
#define WAIT_RECV_X 3
#define WAIT_RECV_BYTES 4
#define WAIT_SEND_SYNC 0
#define WAIT_SEND_MESSAGE 1
#define WAIT_SEND_OUT 2
#define WAIT_SEND_X 3
#define WAIT_SEND_BYTES 4
#define BARRIER_SYNC 0
#define BARRIER_ME 1
#define BARRIER_MEMBERS 2
#define BARRIER_COLLECTIVE 3
#define COPY_BYTES_OUT 0
#define COPY_BYTES_X 1
#define COPY_BYTES_BYTES 2
#define RECV_SYNC 0
#define RECV_MESSAGE 1
#define WAIT_SEVERAL_SYNC 0
#define WAIT_SEVERAL_ME 1
#define WAIT_SEVERAL_MEMBERS 2
#define WAIT_SEVERAL_COLLECTIVE 3
#define WAIT_SEVERAL_HOW 4
#define WAIT_SEVERAL_COMBINE 5
#define WAIT_SEVERAL_DTYPE 6
#define WAIT_SEVERAL_PAIRS 7

// One function per command. They are hidden so that a library that lacks one does not link.
struct context;
#define COMMAND(name) __attribute__((visibility("hidden"))) void cmd_##name(struct context *c, const double *w)
COMMAND(config);
COMMAND(alloc);
COMMAND(free);
COMMAND(matmul);
COMMAND(joinPart);
COMMAND(joinGradPart);
COMMAND(add);
COMMAND(mul);
COMMAND(scale);
COMMAND(sumRows);
COMMAND(sumColumns);
COMMAND(gelu);
COMMAND(geluGrad);
COMMAND(swiglu);
COMMAND(swigluGrad);
COMMAND(layerNorm);
COMMAND(layerNormInputGrad);
COMMAND(layerNormWeightGrad);
COMMAND(rmsNorm);
COMMAND(rmsNormInputGrad);
COMMAND(rmsNormWeightGrad);
COMMAND(rope);
COMMAND(attention);
COMMAND(attentionMerge);
COMMAND(attentionGrad);
COMMAND(dropout);
COMMAND(embed);
COMMAND(embedGrad);
COMMAND(maxColumns);
COMMAND(sumExp);
COMMAND(pick);
COMMAND(tokenLoss);
COMMAND(tokenLossGrad);
COMMAND(countLabels);
COMMAND(squaredError);
COMMAND(squaredErrorGrad);
COMMAND(fill);
COMMAND(accumulate);
COMMAND(sumSquares);
COMMAND(adamw);
COMMAND(sgd);
COMMAND(copy);
COMMAND(start);
COMMAND(waitAllReduce);
COMMAND(waitAllGather);
COMMAND(waitReduceScatter);
COMMAND(waitAllToAll);
COMMAND(waitShift);
COMMAND(send);
COMMAND(waitRecv);
COMMAND(waitSend);
COMMAND(barrier);
COMMAND(copyBytes);
COMMAND(recv);
COMMAND(waitSeveral);
#define COMMAND_TABLE \
{ \
  [CMD_CONFIG] = cmd_config, \
  [CMD_ALLOC] = cmd_alloc, \
  [CMD_FREE] = cmd_free, \
  [CMD_MATMUL] = cmd_matmul, \
  [CMD_JOIN_PART] = cmd_joinPart, \
  [CMD_JOIN_GRAD_PART] = cmd_joinGradPart, \
  [CMD_ADD] = cmd_add, \
  [CMD_MUL] = cmd_mul, \
  [CMD_SCALE] = cmd_scale, \
  [CMD_SUM_ROWS] = cmd_sumRows, \
  [CMD_SUM_COLUMNS] = cmd_sumColumns, \
  [CMD_GELU] = cmd_gelu, \
  [CMD_GELU_GRAD] = cmd_geluGrad, \
  [CMD_SWIGLU] = cmd_swiglu, \
  [CMD_SWIGLU_GRAD] = cmd_swigluGrad, \
  [CMD_LAYER_NORM] = cmd_layerNorm, \
  [CMD_LAYER_NORM_INPUT_GRAD] = cmd_layerNormInputGrad, \
  [CMD_LAYER_NORM_WEIGHT_GRAD] = cmd_layerNormWeightGrad, \
  [CMD_RMS_NORM] = cmd_rmsNorm, \
  [CMD_RMS_NORM_INPUT_GRAD] = cmd_rmsNormInputGrad, \
  [CMD_RMS_NORM_WEIGHT_GRAD] = cmd_rmsNormWeightGrad, \
  [CMD_ROPE] = cmd_rope, \
  [CMD_ATTENTION] = cmd_attention, \
  [CMD_ATTENTION_MERGE] = cmd_attentionMerge, \
  [CMD_ATTENTION_GRAD] = cmd_attentionGrad, \
  [CMD_DROPOUT] = cmd_dropout, \
  [CMD_EMBED] = cmd_embed, \
  [CMD_EMBED_GRAD] = cmd_embedGrad, \
  [CMD_MAX_COLUMNS] = cmd_maxColumns, \
  [CMD_SUM_EXP] = cmd_sumExp, \
  [CMD_PICK] = cmd_pick, \
  [CMD_TOKEN_LOSS] = cmd_tokenLoss, \
  [CMD_TOKEN_LOSS_GRAD] = cmd_tokenLossGrad, \
  [CMD_COUNT_LABELS] = cmd_countLabels, \
  [CMD_SQUARED_ERROR] = cmd_squaredError, \
  [CMD_SQUARED_ERROR_GRAD] = cmd_squaredErrorGrad, \
  [CMD_FILL] = cmd_fill, \
  [CMD_ACCUMULATE] = cmd_accumulate, \
  [CMD_SUM_SQUARES] = cmd_sumSquares, \
  [CMD_ADAMW] = cmd_adamw, \
  [CMD_SGD] = cmd_sgd, \
  [CMD_COPY] = cmd_copy, \
  [CMD_START] = cmd_start, \
  [CMD_WAIT_ALL_REDUCE] = cmd_waitAllReduce, \
  [CMD_WAIT_ALL_GATHER] = cmd_waitAllGather, \
  [CMD_WAIT_REDUCE_SCATTER] = cmd_waitReduceScatter, \
  [CMD_WAIT_ALL_TO_ALL] = cmd_waitAllToAll, \
  [CMD_WAIT_SHIFT] = cmd_waitShift, \
  [CMD_SEND] = cmd_send, \
  [CMD_WAIT_RECV] = cmd_waitRecv, \
  [CMD_WAIT_SEND] = cmd_waitSend, \
  [CMD_BARRIER] = cmd_barrier, \
  [CMD_COPY_BYTES] = cmd_copyBytes, \
  [CMD_RECV] = cmd_recv, \
  [CMD_WAIT_SEVERAL] = cmd_waitSeveral, \
}

// What exec returns.
enum {
  LOCKSTEP_OK,  // done
  LOCKSTEP_ABORTED,  // the abort flag was raised while it waited
  LOCKSTEP_TIMEOUT,  // gave up waiting
  LOCKSTEP_UNKNOWN,  // a command that no kernel knows
  LOCKSTEP_WORKSPACE,  // a kernel needs more workspace than it was given
  LOCKSTEP_COUNT
};

// A rank's status block: i32 words, then live and peak bytes of the kinds of memory.
enum {
  STATUS_COMMAND,
  STATUS_ERROR,
  STATUS_WAITING_FOR,
  STATUS_SPANS,
  STATUS_DONE,
  STATUS_COUNT
};
#define STATUS_LIVE_BYTES 64
#define MEMORY_KINDS 6

// The lines that ranks wait at, in i32 words.
enum { LINE = 16, MESSAGE_X = 8, MESSAGE_OUT = 10 };

// How a collective makes one number of many.
enum {
  COMBINE_SUM,
  COMBINE_MAX,
  COMBINE_PRODUCT,
  COMBINE_MIN,
  COMBINE_MEAN,
  COMBINE_COUNT
};

// What is done to several tensors at one collective.
enum {
  SEVERAL_ALL_REDUCE,
  SEVERAL_REDUCE_SCATTER,
  SEVERAL_ALL_GATHER,
  SEVERAL_COUNT
};

// What its elements are.
enum {
  DTYPE_F32,
  DTYPE_F64,
  DTYPE_BF16,
  DTYPE_F16,
  DTYPE_I32,
  DTYPE_COUNT
};
#define DTYPE_BYTES {4, 8, 2, 2, 4}
#define DTYPES(X) \
  X(f32) X(f64) X(bf16) X(f16) X(i32)
