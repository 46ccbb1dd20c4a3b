// Includes all of the eager front end.
#pragma once
#include "frontends/eager/create.h"
#include "frontends/eager/function.h"
#include "frontends/eager/grad.h"
#include "frontends/eager/operators.h"
#include "frontends/eager/tensor.h"
