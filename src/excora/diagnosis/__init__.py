"""Why has the correlation stopped rising? The plateau detector, the verdicts, and what predictions alone can say."""

from excora.diagnosis.files import diagnose_file
from excora.diagnosis.report import Diagnosis, diagnose
from excora.diagnosis.trend import Plateau, detect_plateau
from excora.diagnosis.verdicts import Verdict, verdict

__all__ = ["Diagnosis", "Plateau", "Verdict", "detect_plateau", "diagnose", "diagnose_file", "verdict"]
