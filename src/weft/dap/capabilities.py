"""The capabilities that the debug adapter reports in its response to `initialize`."""

from __future__ import annotations

from typing import Any

CAPABILITIES: dict[str, Any] = {
    "supportsConfigurationDoneRequest": True,
    "supportsFunctionBreakpoints": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "supportsDataBreakpoints": True,
    "supportsInstructionBreakpoints": True,
    "supportsDisassembleRequest": True,
    "supportsEvaluateForHovers": True,
    "supportsSetVariable": True,
    "supportsSetExpression": True,
    "supportsCompletionsRequest": True,
    "supportsStepBack": True,
    "supportsRestartRequest": True,
    "supportsGotoTargetsRequest": True,
    "supportsExceptionInfoRequest": True,
    "supportsLoadedSourcesRequest": True,
    "supportsTerminateRequest": True,
    "supportsSingleThreadExecutionRequests": True,
    "supportsDelayedStackTraceLoading": True,
    "exceptionBreakpointFilters": [],
}
