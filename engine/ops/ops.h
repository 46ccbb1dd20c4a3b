// All operators and functions, typed, and the operators' records. Arguments are passed by value where an output may take over their memory: move values
// that are no longer needed. Legend: images are [N, H, W, C]; convolution weights [R, S, C / groups, K]; linear weights [in, out].
// Errors: an invalid call throws ShapeError with the operator, what was given and what is accepted.
#pragma once
#include "engine/functions/arithmetic.h"
#include "engine/functions/functions.h"
#include "engine/ops/attention/attention_operators.h"
#include "engine/ops/control/control_operators.h"
#include "engine/ops/convolution/convolution_operators.h"
#include "engine/ops/elementwise/elementwise_operators.h"
#include "engine/ops/index/index_operators.h"
#include "engine/ops/loss/loss_operators.h"
#include "engine/ops/matmul/matmul_operators.h"
#include "engine/ops/normalisation/normalisation_operators.h"
#include "engine/ops/pooling/pooling_operators.h"
#include "engine/ops/random/random_operators.h"
#include "engine/ops/recurrent/recurrent_operators.h"
#include "engine/ops/reduce/reduce_operators.h"
#include "engine/ops/shape/shape_operators.h"
#include "engine/ops/update/update_operators.h"
