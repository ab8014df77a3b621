//! The answers of the control service, and who may ask.

use dynd_proto::API_VERSION;
use dynd_proto::v1::control_server::Control;
use dynd_proto::v1::{
    CacheStatsReply, CacheStatsRequest, GetSessionReply, GetSessionRequest, ListSessionsReply,
    ListSessionsRequest, StatusReply, StatusRequest, VersionReply, VersionRequest,
};
use dynd_session::{FindError, Phase, SessionView};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Response, Status};

use super::{ControlState, convert};

#[derive(Debug)]
pub(super) struct ControlService {
    state: ControlState,
}

impl ControlService {
    pub(super) fn new(state: ControlState) -> Self {
        ControlService { state }
    }

    fn now_ms(&self) -> u64 {
        self.state.clock.wall().0
    }
}

/// Lets root and the daemon's own user pass, by the credentials the kernel gives for the peer.
pub(super) fn check_peer(request: Request<()>, own_uid: u32) -> Result<Request<()>, Status> {
    let peer = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
    match peer.map(|peer| peer.uid()) {
        Some(uid) if uid == 0 || uid == own_uid => Ok(request),
        Some(uid) => Err(Status::permission_denied(format!(
            "user {uid} may not control this dynd: only root and user {own_uid} may"
        ))),
        None => Err(Status::permission_denied("the peer's user is unknown")),
    }
}

#[tonic::async_trait]
impl Control for ControlService {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        let daemon = self.state.daemon.status();
        let sessions = self.state.sessions.lock();
        Ok(Response::new(StatusReply {
            now_ms: self.now_ms(),
            version: self.state.version.to_owned(),
            state: daemon.state.name().to_owned(),
            pid: std::process::id(),
            started_ms: self.state.started.0,
            listen: daemon.listen.iter().map(ToString::to_string).collect(),
            models: daemon.models.into_iter().map(convert::model).collect(),
            workers: daemon.workers.into_iter().map(convert::worker).collect(),
            sessions: Some(convert::session_counts(sessions.phase_counts(), sessions.evicted())),
            totals: Some(convert::totals(sessions.totals())),
            requests_in_flight: sessions.requests_in_flight() as u64,
            requests_queued: sessions.requests_queued() as u64,
            misses: convert::misses(sessions.misses()),
            warnings: daemon.warnings,
        }))
    }

    async fn list_sessions(
        &self,
        request: Request<ListSessionsRequest>,
    ) -> Result<Response<ListSessionsReply>, Status> {
        let ListSessionsRequest { active, tree } = request.into_inner();
        let views = {
            let sessions = self.state.sessions.lock();
            if tree { sessions.tree() } else { sessions.list() }
        };
        let is_listed =
            |view: &SessionView| !active || matches!(view.phase, Phase::Reasoning | Phase::Acting);
        Ok(Response::new(ListSessionsReply {
            now_ms: self.now_ms(),
            sessions: views.into_iter().filter(is_listed).map(convert::session).collect(),
        }))
    }

    async fn get_session(
        &self,
        request: Request<GetSessionRequest>,
    ) -> Result<Response<GetSessionReply>, Status> {
        let GetSessionRequest { id, show_text } = request.into_inner();
        if show_text && !self.state.keeps_lines {
            let message = "this daemon keeps no text (sessions.show_text is off)";
            return Err(Status::failed_precondition(message));
        }
        let found = self.state.sessions.lock().detail(&id);
        let detail = found.map_err(|error| match error {
            FindError::NotFound | FindError::NoSessions => Status::not_found(error.to_string()),
            FindError::Ambiguous { .. } => Status::invalid_argument(error.to_string()),
        })?;
        Ok(Response::new(convert::session_detail(self.now_ms(), detail, show_text)))
    }

    async fn cache_stats(
        &self,
        _: Request<CacheStatsRequest>,
    ) -> Result<Response<CacheStatsReply>, Status> {
        let workers = self.state.daemon.status().workers;
        Ok(Response::new(CacheStatsReply {
            now_ms: self.now_ms(),
            pools: workers.into_iter().map(convert::pool).collect(),
        }))
    }

    async fn version(&self, _: Request<VersionRequest>) -> Result<Response<VersionReply>, Status> {
        Ok(Response::new(VersionReply {
            version: self.state.version.to_owned(),
            api_version: API_VERSION.to_owned(),
        }))
    }
}
